// A buffer of sequences: "recent_sequence" is "sequence", and in a parallel run the coordinator
// draws its sequences by the selector "recent" of this folder.
//   replay_buffer { type: "recent_sequence" params { [type.googleapis.com/ding.SequenceBufferConfig] { unroll_len: 4 } } }
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

ding::BufferDescriptor Descriptor() {
  ding::BufferDescriptor descriptor;
  descriptor.name = "recent_sequence";
  descriptor.create = [](const ding::BufferConfig& config, const ding::BufferDeps& deps) {
    return ding::create_buffer(AsSequence(config), deps);
  };
  descriptor.items = Items;
  return descriptor;
}

DING_REGISTER(ding::BufferRegistry(), "recent_sequence", Descriptor(),
              "sequences; parallel runs draw them by 'recent'",
              &ding::SequenceBufferConfig::descriptor);

}  // namespace
}  // namespace own
