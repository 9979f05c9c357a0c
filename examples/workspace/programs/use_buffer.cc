// Links NaiveReplayBuffer of ding_worker alone: it takes the address of a function, so that the
// linker needs the whole class.
#include <cstdio>

#include "ding_worker/replay_buffer/naive_buffer.h"

int main() {
  auto* volatile make = &ding::NaiveReplayBuffer::Create;
  std::puts(make != nullptr ? "NaiveReplayBuffer is linked" : "nothing is linked");
}
