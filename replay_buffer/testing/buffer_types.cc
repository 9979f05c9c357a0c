#include "ding_worker/replay_buffer/testing/buffer_types.h"

#include <algorithm>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/status_matchers.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/advanced_buffer.pb.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/buffer.pb.h"
#include "ding_worker/replay_buffer/buffer_registry.h"
#include "ding_worker/replay_buffer/deque_buffer.pb.h"
#include "ding_worker/replay_buffer/elastic_buffer.pb.h"
#include "ding_worker/replay_buffer/sequence_buffer.pb.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gmock/gmock.h"
#include "google/protobuf/message.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

// The tests may draw a row this often before it is retired.
constexpr int64_t kMaxUse = 5;
constexpr int64_t kMaxStaleness = 100;

// `params` is null or a message for BufferConfig.params.
std::unique_ptr<IBuffer> Make(const std::string& type, const BufferSettings& settings,
                              const google::protobuf::Message* params) {
  BufferConfig config;
  config.set_type(type);
  config.set_replay_buffer_size(settings.capacity_rows);
  config.set_nstep(settings.nstep);
  config.set_discount_factor(settings.gamma);
  if (!settings.disk_folder.empty()) {
    config.set_storage(BufferConfig::DISK);
    config.set_path(settings.disk_folder);
  }
  if (params != nullptr) config.mutable_params()->PackFrom(*params);
  ComponentDeps deps;
  deps.seed = settings.seed;
  deps.metrics = settings.metrics;
  return create_buffer(config, deps).value();
}

BufferMaker Plain(const std::string& type) {
  return [type](const BufferSettings& settings) { return Make(type, settings, nullptr); };
}

template <typename Params>
BufferMaker With(const std::string& type, const Params& params) {
  return [type, params](const BufferSettings& settings) { return Make(type, settings, &params); };
}

// The window is half of the ring.
std::unique_ptr<IBuffer> MakeElastic(const BufferSettings& settings) {
  ElasticBufferConfig params;
  params.set_window_start(std::max<int64_t>(1, settings.capacity_rows / 2));
  params.set_window_end(params.window_start());
  return Make("elastic", settings, &params);
}

// `params` has what is to be set besides.
std::unique_ptr<IBuffer> MakeSequence(const BufferSettings& settings, SequenceBufferConfig params) {
  params.set_unroll_len(std::min<int64_t>(5, settings.capacity_rows));
  params.set_burn_in(params.unroll_len() / 2);
  params.set_overlap(params.unroll_len() / 2);
  params.set_padding(true);
  return Make("sequence", settings, &params);
}

std::vector<BufferType> MakeBufferTypes() {
  DequeBufferConfig used_up;
  used_up.set_max_use(kMaxUse);
  DequeBufferConfig prioritized;
  prioritized.set_priority(true);
  prioritized.set_priority_is_weight(true);
  AdvancedBufferConfig uniform;
  uniform.set_alpha(0);
  AdvancedBufferConfig limited;
  limited.set_max_use(kMaxUse);
  limited.set_max_staleness(kMaxStaleness);
  SequenceBufferConfig rows;
  rows.set_unroll_len(1);
  SequenceBufferConfig across;
  across.set_cross_episodes(true);
  SequenceBufferConfig by_priority;
  by_priority.mutable_priority();
  const auto sequences = [](const SequenceBufferConfig& params) {
    return [params](const BufferSettings& settings) { return MakeSequence(settings, params); };
  };
  return {
      {"Naive", Plain("naive"), /*of_rows=*/true, /*prioritized=*/false},
      {"Elastic", MakeElastic, true, false},
      {"Deque", Plain("deque"), true, false},
      {"DequeUsedUp", With("deque", used_up), false, true},
      {"DequePrioritized", With("deque", prioritized), true, true},
      {"Advanced", Plain("advanced"), true, true},
      {"AdvancedUniform", With("advanced", uniform), true, true},
      {"AdvancedLimited", With("advanced", limited), false, true},
      {"SequenceOfRows", With("sequence", rows), true, false},
      {"Sequence", sequences(SequenceBufferConfig()), false, false},
      {"SequenceAcross", sequences(across), false, false},
      {"SequencePrioritized", sequences(by_priority), false, true},
      {"Episode", Plain("episode"), false, false},
  };
}

}  // namespace

const std::vector<BufferType>& BufferTypes() {
  static const auto* const types = new std::vector<BufferType>(MakeBufferTypes());
  return *types;
}

std::shared_ptr<RecordingSink> ExpectThruputReport(BufferConfig config) {
  config.set_periodic_thruput_seconds(3);
  SimulatedClock clock;
  auto sink = std::make_shared<RecordingSink>();
  ComponentDeps deps;
  deps.name = "replay";
  deps.clock = &clock;
  deps.metrics = sink;
  const absl::StatusOr<std::unique_ptr<IBuffer>> created = create_buffer(config, deps);
  EXPECT_THAT(created, IsOk());
  if (!created.ok()) return sink;
  IBuffer& buffer = **created;
  TestStreams streams;
  EXPECT_THAT(buffer.Push(streams.Make({{0, 1}}), 1), IsOk());
  EXPECT_THAT(buffer.Sample(1, 0), IsOk());
  clock.Advance(absl::Milliseconds(2999));
  EXPECT_THAT(buffer.Sample(1, 0), IsOk());
  EXPECT_THAT(sink->ValuesOf("replay_sec/sampled_out"), testing::IsEmpty());
  clock.Advance(absl::Milliseconds(1));
  EXPECT_THAT(buffer.Sample(1, 0), IsOk());
  EXPECT_THAT(sink->ValuesOf("replay_sec/sampled_out"), testing::ElementsAre(3));
  return sink;
}

}  // namespace ding
