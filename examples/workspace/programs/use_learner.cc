// Links BaseLearner of ding_worker alone: it takes the address of a function, so that the linker
// needs the whole class.
#include <cstdio>
#include <utility>

#include "ding_worker/learner/base_learner.h"

int main() {
  auto* volatile make =
      +[](ding::BaseLearner::Parts parts) { return ding::BaseLearner::Create(std::move(parts)); };
  std::puts(make != nullptr ? "BaseLearner is linked" : "nothing is linked");
}
