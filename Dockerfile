# The project and its environment. Build: docker build -t reward-values .
# Run all notebooks on the small models, and keep the figures:
#   docker run --rm -v "$PWD/figures:/project/figures" reward-values
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
WORKDIR /project
# Packages first, each by the hash of its wheel: a change of the sources installs none of them again
COPY docs/container.lock docs/
RUN python -m venv .venv && .venv/bin/pip install --no-deps --require-hashes -r docs/container.lock
COPY . .
# An editable installation has no hash
RUN .venv/bin/pip install --no-deps --no-build-isolation -e . && touch .venv/.installed
CMD ["make", "reproduce"]
