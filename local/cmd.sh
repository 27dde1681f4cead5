# How heavy commands are started. Sourced by every recipe; edit it for your site.
# Each is put in front of a command: empty means this machine, in the foreground.
#   Slurm, workers on one node:     cpu_cmd="srun --ntasks=1 --cpus-per-task=16"   train_cmd="srun --ntasks=1 --gpus=4"
#   Slurm, a worker a task:         train_cmd="srun --ntasks=8 --cpus-per-task=4"  (its number of tasks counts, not --workers)
#   MPI, 8 workers on this machine: train_cmd="mpirun -n 8"; on several: mpirun -n 8 --hostfile hosts, with --backend mpi
# docs/launch.md explains them; local/train.sbatch is a batch job of several nodes.
cpu_cmd=""    # features, alignment, decoding
train_cmd=""  # network training
