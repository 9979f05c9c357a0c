// The output of `--list_modules`: a registry with the help of its entries, and sentences wrapped
// for a terminal.
//
// Threads: thread-safe (pure functions, and the registries, which are thread-safe).
#ifndef DING_WORKER_WORKER_LIST_REGISTRY_H_
#define DING_WORKER_WORKER_LIST_REGISTRY_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/base/registry.h"

namespace ding {

// The help of an entry and, behind it, the message that the params of the type hold:
// "DQN: ... [ding.DqnConfig]".
std::string HelpWithParams(const RegistryEntry& entry);

// Appends the kind of the registry and, below it, a line for each name with HelpWithParams():
//
//   codec:
//     lz4   LZ4: cheap enough for data that are read once
//     zstd  Zstandard: smaller than lz4, for stores over a slow network
//
// Help that does not fit in 100 columns continues in further lines. Problems follow as
// "error: <sentence>". Without names and problems the one line is "codec: none in this program".
void ListEntries(absl::string_view kind, const std::vector<RegistryEntry>& entries,
                 const std::vector<std::string>& problems, std::string* text);

template <typename Factory>
void ListRegistry(const Registry<Factory>& registry, std::string* text) {
  ListEntries(registry.kind(), registry.Entries(), registry.Problems(), text);
}

// Appends `line`, which is empty or ends with a space, and the words of `sentence` to `*text`, in
// lines of at most 100 columns. The further lines begin at column `indent`.
void AppendWrapped(std::string line, size_t indent, absl::string_view sentence, std::string* text);

}  // namespace ding

#endif  // DING_WORKER_WORKER_LIST_REGISTRY_H_
