# The project and its environment without a GPU. Build: docker build -t reward-values .
# Run all notebooks on the small models, and keep the figures:
#   docker run --rm -v "$PWD/figures:/project/figures" reward-values
FROM python:3.11-slim
RUN apt-get update && apt-get install --yes --no-install-recommends git make && rm -rf /var/lib/apt/lists/*
WORKDIR /project
COPY . .
RUN make install
CMD ["make", "reproduce"]
