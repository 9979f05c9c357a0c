// Links FileStore of ding_worker alone: it takes the address of a function, so that the linker
// needs the whole class.
#include <cstdio>

#include "ding_worker/interaction/store/file_store.h"

int main() {
  auto* volatile make = &ding::FileStore::Create;
  std::puts(make != nullptr ? "FileStore is linked" : "nothing is linked");
}
