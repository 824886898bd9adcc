# One image for CPUs, one for NVIDIA GPUs; neither runs as root.
#
#   docker build -t selfpretrain .
#   docker build -t selfpretrain:cuda --build-arg TORCH_INDEX=https://download.pytorch.org/whl/cu128 .
#   docker run --rm -v "$PWD/runs:/home/selfpretrain/runs" selfpretrain compare --task digits --scale smoke
#   docker run --rm --gpus all -v "$PWD/runs:/home/selfpretrain/runs" selfpretrain:cuda compare --task digits
#
# The folder that is mounted must be writable for user 1000.
FROM python:3.12-slim

# Triton (FlexAttention) and compiled blocks need a compiler.
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
COPY pyproject.toml README.md LICENSE constraints.txt /source/
COPY src /source/src
RUN pip install --no-cache-dir --extra-index-url "$TORCH_INDEX" -c /source/constraints.txt "/source[audio]" \
    && rm -rf /source \
    && useradd --create-home --uid 1000 selfpretrain

USER 1000
WORKDIR /home/selfpretrain
RUN mkdir runs data
ENV SELFPRETRAIN_DATA=/home/selfpretrain/data \
    PYTHONUNBUFFERED=1
ENTRYPOINT ["selfpretrain"]
CMD ["--help"]
