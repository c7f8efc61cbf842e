from neuropil.cli import main

main()
