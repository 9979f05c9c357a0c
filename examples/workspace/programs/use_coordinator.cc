// Links Coordinator of ding_worker alone: it takes the address of a function, so that the linker
// needs the whole class.
#include <cstdio>

#include "ding_worker/coordinator/coordinator.h"

int main() {
  auto* volatile make = &ding::Coordinator::Create;
  std::puts(make != nullptr ? "Coordinator is linked" : "nothing is linked");
}
