"""What is collected here depends on what the machine has."""

import shutil

# Apache Kafka needs both; where they are not, there is nothing to test.
if not (shutil.which("java") and shutil.which("mvn")):
    collect_ignore = ["test_real_broker.py"]
