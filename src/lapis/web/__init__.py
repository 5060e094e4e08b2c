"""The workbench: a local server, its worker processes and the page of `web/`.

contract    the types of requests and replies; `schema` makes JSON Schema, OpenAPI, TypeScript
files       paths inside the folder that the server was started in
worker      a process that does the work: checks, answers, tables; it reads hostile files
pool        starts, watches and kills workers
jobs        the queue of long runs, their progress and what they leave on disk
server      routes, tokens, headers; it parses nothing but small JSON
"""
