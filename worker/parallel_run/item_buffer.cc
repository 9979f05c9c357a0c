#include "ding_worker/worker/parallel_run/item_buffer.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/worker/parallel_run/parallel_collect.h"

namespace ding {
namespace {

constexpr char kBuffer[] = "policy.other.replay_buffer";

absl::StatusOr<ItemBuffer> ItemsOf(const BufferConfig& config) {
  DING_ASSIGN_OR_RETURN(const BufferDescriptor type, get_buffer_cls(config));
  if (type.items == nullptr) return ItemBuffer{config, {}};
  return CallUser("BufferDescriptor::items", [&] { return type.items(config); });
}

// AppendItemBufferProblems() reports a type that this program does not have, and a setting that the type refuses.
ItemBuffer ItemsOrRows(const BufferConfig& config) {
  return ItemsOf(config).value_or(ItemBuffer{config, {}});
}

}  // namespace

bool HasItemsOfSequences(const BufferConfig& config) {
  const absl::StatusOr<BufferDescriptor> type = get_buffer_cls(config);
  return type.ok() && type->items != nullptr;
}

ItemSequences ItemSequencesOf(const BufferConfig& config) { return ItemsOrRows(config).sequences; }

BufferConfig ItemBufferConfig(const BufferConfig& config) { return ItemsOrRows(config).config; }

void AppendItemBufferProblems(const ExperimentConfig& config, bool plays_games,
                              std::vector<std::string>* problems) {
  BufferConfig buffer = config.policy().other().replay_buffer();
  const absl::StatusOr<BufferDescriptor> type = get_buffer_cls(buffer);
  if (!type.ok()) return;  // The factory refuses an unknown type.
  if (type->items == nullptr) {
    if (type->tells_removed_items) return;
    problems->push_back(absl::StrCat(
        kBuffer, ".type is '", buffer.type(),
        "', which does not tell which items leave it, so that a parallel run could not delete "
        "their data: expected 'naive', 'advanced', 'sequence' or another type that does"));
    return;
  }
  if (plays_games) {
    problems->push_back(absl::StrCat(kBuffer, ".type is '", buffer.type(),
                                     "', but the rows of a league's games are handed over one by "
                                     "one: expected a type that draws those"));
    return;
  }
  buffer.clear_replay_ratio();  // which the coordinator obeys
  const absl::Status made = create_buffer(buffer, BufferDeps()).status();
  if (!made.ok()) {
    problems->push_back(absl::StrCat(kBuffer, ": ", made.message()));
    return;
  }
  const absl::StatusOr<ItemBuffer> items = ItemsOf(buffer);
  if (!items.ok()) {
    problems->push_back(absl::StrCat(kBuffer, ": ", items.status().message()));
    return;
  }
  const ItemSequences& sequences = items->sequences;
  // Episodes are handed over whole, and may have any length.
  if (config.policy().collect().has_n_episode()) return;
  const CollectSection& collect = config.policy().collect();
  if (sequences.whole_episodes) {
    problems->push_back(absl::StrCat(
        "policy.collect.n_sample is ", collect.n_sample(), ", but ", kBuffer, ".type is '",
        buffer.type(),
        "', which draws whole episodes: expected policy.collect.n_episode in its place, as "
        "'n_episode: 1', so that whole episodes are handed over"));
    return;
  }
  const int64_t rows =
      ShareOfCollector(config) * collect.unroll_len() / config.env().collector_env_num();
  if (rows < sequences.length && !sequences.padding) {
    problems->push_back(absl::StrCat(
        "policy.collect.n_sample is ", collect.n_sample(), ", ", rows,
        " rows of each env of each collector, but the sequences of ", kBuffer, " have ",
        sequences.length,
        " rows: expected as many rows of each or more, best a multiple, because a sequence lies "
        "within the rows of an env that are handed over together; or set padding"));
  }
}

}  // namespace ding
