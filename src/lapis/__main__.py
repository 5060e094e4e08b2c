from lapis.cli.main import main

main()
