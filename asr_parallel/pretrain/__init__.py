"""Pretraining: stacked restricted Boltzmann machines give a network its first hidden layers."""
