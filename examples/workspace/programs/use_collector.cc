// Links SampleSerialCollector of ding_worker alone: it takes the address of a function, so that the
// linker needs the whole class.
#include <cstdio>

#include "ding_worker/collector/serial/serial_collectors.h"

int main() {
  auto* volatile make = &ding::SampleSerialCollector::Create;
  std::puts(make != nullptr ? "SampleSerialCollector is linked" : "nothing is linked");
}
