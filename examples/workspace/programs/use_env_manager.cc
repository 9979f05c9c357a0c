// Links BaseEnvManager of ding_worker alone: it takes the address of a function, so that the linker
// needs the whole class.
#include <cstdio>

#include "ding_worker/env/base_env_manager.h"

int main() {
  auto* volatile make = &ding::BaseEnvManager::Create;
  std::puts(make != nullptr ? "BaseEnvManager is linked" : "nothing is linked");
}
