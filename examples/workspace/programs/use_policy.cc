// Links DqnPolicy of ding_worker alone: it takes the address of a function, so that the linker
// needs the whole class.
#include <cstdio>

#include "ding_worker/policy/dqn/dqn.h"

int main() {
  auto* volatile make = &ding::DqnPolicy::Create;
  std::puts(make != nullptr ? "DqnPolicy is linked" : "nothing is linked");
}
