# Lapis with all stores, as a command: docker run --rm -v "$PWD:/work" lapis infer model.mln facts -q P
FROM node:22-bookworm-slim AS page
WORKDIR /source
COPY web ./web
COPY src/lapis/web ./src/lapis/web
RUN npm --prefix web ci --no-fund --no-audit && npm --prefix web run build

FROM python:3.12-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY src ./src
COPY web ./web
COPY --from=page /source/src/lapis/web/dist ./src/lapis/web/dist
RUN pip install --no-cache-dir build==1.3.0 \
    && python -m build --wheel --outdir /wheels .

FROM python:3.12-slim-bookworm
# libgomp: threads of compiled kernels and solvers
RUN apt-get update \
    && apt-get install --no-install-recommends -y libgomp1=12.* \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /wheels /wheels
RUN pip install --no-cache-dir "$(echo /wheels/*.whl)[frames,graph,plot,postgres,rdf,sklearn,web]" \
    && rm -r /wheels \
    && useradd --create-home --uid 1000 lapis
USER 1000
ENV NUMBA_CACHE_DIR=/home/lapis/kernels
RUN lapis warm
WORKDIR /work
ENTRYPOINT ["lapis"]
CMD ["--help"]
