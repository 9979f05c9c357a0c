// A buffer of sequences: "recent_sequence" is "sequence", and in a parallel run the coordinator
// draws its sequences by the selector "recent" of this folder.
//   replay_buffer { type: "recent_sequence" params { [type.googleapis.com/ding.SequenceBufferConfig] { unroll_len: 4 } } }
#include <memory>

#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"

namespace own {
namespace {

ding::BufferConfig AsSequence(ding::BufferConfig config) {
  config.set_type("sequence");
  return config;
}

absl::StatusOr<ding::ItemBuffer> Items(const ding::BufferConfig& config) {
  DING_ASSIGN_OR_RETURN(const auto sequence, ding::get_buffer_cls(AsSequence(config)));
  DING_ASSIGN_OR_RETURN(ding::ItemBuffer items, sequence.items(AsSequence(config)));
  items.config.mutable_selector()->set_type("recent");
  return items;
}

absl::StatusOr<std::unique_ptr<ding::IBuffer>> Create(const ding::BufferConfig& config,
                                                      const ding::SequenceBufferConfig& /*params*/,
                                                      const ding::BufferDeps& deps) {
  return ding::create_buffer(AsSequence(config), deps);
}

DING_REGISTER(ding::BufferRegistry(), "recent_sequence",
              (ding::BufferDescriptor{Create, /*tells_removed_items=*/false,
                                      /*takes_remover=*/false, Items}),
              "sequences; parallel runs draw them by 'recent'");

}  // namespace
}  // namespace own
