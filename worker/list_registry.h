// One line of the output of `--list_modules`.
#ifndef DING_WORKER_WORKER_LIST_REGISTRY_H_
#define DING_WORKER_WORKER_LIST_REGISTRY_H_

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/registry.h"

namespace ding {

// Appends "env: Acrobot-v1, CartPole-v0, ..." and a newline.
template <typename Factory>
void ListRegistry(const Registry<Factory>& registry, std::string* text) {
  absl::StrAppend(text, registry.kind(), ": ", absl::StrJoin(registry.Names(), ", "), "\n");
}

}  // namespace ding

#endif  // DING_WORKER_WORKER_LIST_REGISTRY_H_
