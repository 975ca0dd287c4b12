# shellcheck shell=bash
# What the Java package, its subject and its checks need: Debian's JDK 17 and Maven. Everything else is brought by Maven, by
# the versions that the package's poms and scripts name: libraries, the generators of the stubs, the formatter.

# need_client_java: makes this machine ready for them.
need_client_java() {
    need javac mvn
    local compiler
    compiler=$(readlink -f "$(command -v javac)")
    # The JDK of that compiler is also Maven's, and that of the scenarios, whatever else is installed.
    export JAVA_HOME=${compiler%/bin/javac}
    export PATH=$JAVA_HOME/bin:$PATH
}
