#include "ding_worker/worker/parallel_run/item_buffer.h"

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"

namespace ding {
namespace {

constexpr char kBuffer[] = "policy.other.replay_buffer";
constexpr char kSequence[] = "sequence";
constexpr char kEpisode[] = "episode";

// The defaults if there are none, or if they are of another type, which is a problem of the buffer's factory.
SequenceBufferConfig ParamsOf(const BufferConfig& config) {
  SequenceBufferConfig params;
  if (!config.params().UnpackTo(&params)) params.Clear();
  return params;
}

}  // namespace

bool HasItemsOfSequences(const BufferConfig& config) {
  return config.type() == kSequence || config.type() == kEpisode;
}

ItemSequences ItemSequencesOf(const BufferConfig& config) {
  ItemSequences sequences;
  sequences.whole_episodes = config.type() == kEpisode;
  if (config.type() != kSequence) return sequences;
  const SequenceBufferConfig params = ParamsOf(config);
  sequences.length = params.unroll_len();
  sequences.overlap = params.has_overlap() ? params.overlap() : params.unroll_len() - 1;
  sequences.burn_in = params.burn_in();
  sequences.padding = params.padding();
  return sequences;
}

BufferConfig ItemBufferConfig(const BufferConfig& config) {
  BufferConfig items = config;
  if (config.type() != kSequence) return items;
  const SequenceBufferConfig params = ParamsOf(config);
  items.clear_params();
  items.set_type("naive");
  if (params.has_priority()) {
    AdvancedBufferConfig priority;
    priority.set_alpha(params.priority().alpha());
    priority.set_beta(params.priority().beta());
    priority.set_anneal_step(params.priority().anneal_step());
    items.set_type("advanced");
    items.mutable_params()->PackFrom(priority);
  }
  if (!config.has_replay_buffer_bytes()) {
    items.set_replay_buffer_size(
        std::max<int64_t>(1, config.replay_buffer_size() / ItemSequencesOf(config).period()));
  }
  return items;
}

void AppendItemBufferProblems(const ExperimentConfig& config, bool plays_games,
                              std::vector<std::string>* problems) {
  BufferConfig buffer = config.policy().other().replay_buffer();
  if (!HasItemsOfSequences(buffer)) {
    const absl::StatusOr<BufferDescriptor> type = get_buffer_cls(buffer);
    if (!type.ok() || type->tells_removed_items) return;  // The factory refuses an unknown type.
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
  if (buffer.type() == kEpisode) {
    if (config.policy().collect().has_n_episode()) return;
    problems->push_back(absl::StrCat(
        "policy.collect.n_sample is ", config.policy().collect().n_sample(), ", but ", kBuffer,
        ".type is 'episode', which draws whole episodes: expected policy.collect.n_episode in its "
        "place, as 'n_episode: 1', so that whole episodes are handed over"));
    return;
  }
  if (ParamsOf(buffer).cross_episodes()) {
    problems->push_back(absl::StrCat(
        kBuffer,
        ".params.cross_episodes is true, but a sequence of a parallel run lies within one "
        "episode: expected false; set padding to learn from the ends of episodes"));
  }
  const ItemSequences sequences = ItemSequencesOf(buffer);
  // Episodes are handed over whole, and may have any length.
  if (config.policy().collect().has_n_episode()) return;
  const int64_t handed_over = config.policy().collect().n_sample();
  if (handed_over < sequences.length && !sequences.padding) {
    problems->push_back(absl::StrCat(
        "policy.collect.n_sample is ", handed_over, ", but ", kBuffer, ".params.unroll_len is ",
        sequences.length,
        ": expected as many rows or more, best a multiple, because a sequence "
        "lies within the rows of an env that are handed over together; or set padding"));
  }
}

}  // namespace ding
