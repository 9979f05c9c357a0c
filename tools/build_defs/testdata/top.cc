#include "ding_worker/tools/build_defs/testdata/middle.h"

int main() { return ding::testdata::Middle() == 0; }
