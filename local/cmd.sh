# How heavy commands are started. Sourced by every recipe; edit it for your site.
# Each is put in front of a command: empty means this machine, in the foreground.
#   Slurm:  cpu_cmd="srun --ntasks=1 --cpus-per-task=16"   train_cmd="srun --ntasks=1 --gpus=1"
cpu_cmd=""    # features, alignment, decoding
train_cmd=""  # network training
