// The cost of a collector's message and of a learner's demand for the coordinator, beside the
// baseline: decoding and pushing the items, drawing and encoding them.
//
//   TakeData/items, TakeDataBaseline/items     one message with that many items
//   AnswerDemand/rows, AnswerDemandBaseline/rows
//
// The cost of a replay ratio whose bounds are never reached, beside the same messages without one:
//
//   TakeDataLimited/items, TakeDataLimitedBaseline/items
//   AnswerDemandLimited/rows, AnswerDemandLimitedBaseline/rows
//
// The cost of the same events for the state machine alone, without threads, queue and deletion:
//
//   ApplyData/items/workers   one message with that many items, in a run with that many collectors
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/core/events.pb.h"
#include "ding_worker/coordinator/core/run_driver.h"
#include "ding_worker/coordinator/core/run_state.h"
#include "ding_worker/coordinator/testing/naive_commander.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/items.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"

namespace ding {
namespace {

constexpr uint32_t kLearner = 1;
constexpr uint32_t kCollector = 2;
constexpr int64_t kRows = 100000;

std::unique_ptr<IBuffer> MakeBuffer(OnRemoved on_removed) {
  NaiveReplayBuffer::Options options;
  options.capacity_rows = kRows;
  options.on_removed = std::move(on_removed);
  return NaiveReplayBuffer::Create(options).value();
}

// The items of the collector's chunk number `sequence`.
std::string EncodedItems(uint64_t sequence, int64_t items) {
  return EncodedBatch(
             TestItemsOfChunk(ChunkNumber(kCollector, static_cast<uint32_t>(sequence)), items).rows)
      .ToString();
}

class NullSender : public CoordinatorSender {
 public:
  void Send(uint32_t, const CoordinatorMessage& message) override {
    benchmark::DoNotOptimize(message.ByteSizeLong());
  }
};

Coordinator::Parts MakeParts(CoordinatorSender* sender, int collectors) {
  Coordinator::Parts parts;
  NaiveCommander::Options options;
  options.collector_task_space = collectors;
  parts.commander = NaiveCommander::Create(options).value();
  parts.make_buffer = [](const std::string&, absl::Span<const std::string> /*settings*/,
                         OnRemoved on_removed) { return MakeBuffer(std::move(on_removed)); };
  parts.delete_key = [](const std::string&) { return absl::OkStatus(); };
  parts.sender = sender;
  return parts;
}

// A coordinator with a learner and a collector at work.
class Bench {
 public:
  explicit Bench(const Coordinator::Options& options = {}) {
    Coordinator::Parts parts = MakeParts(&sender_, 1);
    driver_ = std::make_unique<internal_coordinator::RunDriver>(options, std::move(parts),
                                                                clock_.MonotonicNanos());
    Event event;
    event.set_start(true);
    Apply(&event);
    event.set_worker(kLearner);
    event.mutable_joined()->mutable_hello()->set_role(Hello::LEARNER);
    Apply(&event);
    WorkerMessage started;
    started.mutable_task_started()->set_task_id("learner_task_id1");
    Handle(kLearner, started);
    event.set_worker(kCollector);
    event.mutable_joined()->mutable_hello()->set_role(Hello::COLLECTOR);
    Apply(&event);
  }
  void Apply(Event* event) {
    const absl::Status status = driver_->Apply(clock_.MonotonicNanos(), event).status;
    DING_CHECK(status.ok()) << status;
    DING_CHECK(driver_->Commit(clock_.MonotonicNanos()).ok());
  }
  void Handle(uint32_t worker, const WorkerMessage& message) {
    Event event;
    event.set_worker(worker);
    // The event borrows the message.
    event.unsafe_arena_set_allocated_message(const_cast<WorkerMessage*>(&message));
    Apply(&event);
    event.unsafe_arena_release_message();
  }
  void Push(std::string items) {
    // The coordinator refuses more rows per second than an env can make.
    clock_.Advance(absl::Milliseconds(1));
    WorkerMessage message;
    CollectorData* const data = message.mutable_collector_data();
    data->set_task_id("collector_task_id1");
    data->set_sequence(++sequence_);
    data->set_items(std::move(items));
    Handle(kCollector, message);
  }

 private:
  SimulatedClock clock_;
  NullSender sender_;
  std::unique_ptr<internal_coordinator::RunDriver> driver_;
  uint64_t sequence_ = 0;
};

// A replay ratio that never makes anybody wait.
Coordinator::Options Limited() {
  Coordinator::Options options;
  options.replay_ratio.emplace();
  options.replay_ratio->max = 1e12;
  options.replay_ratio->error_buffer = int64_t{1} << 40;
  return options;
}

void TakeDataFrom(const Coordinator::Options& options, benchmark::State& state) {
  Bench bench(options);
  uint64_t sequence = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::string items = EncodedItems(++sequence, state.range(0));
    state.ResumeTiming();
    bench.Push(std::move(items));
  }
}

void TakeData(benchmark::State& state) { TakeDataFrom({}, state); }

void TakeDataLimited(benchmark::State& state) {
  TakeDataFrom(Limited(), state);
  state.SetLabel("aim=0.95");
}

void TakeDataLimitedBaseline(benchmark::State& state) { TakeDataFrom({}, state); }

void TakeDataBaseline(benchmark::State& state) {
  const std::unique_ptr<IBuffer> buffer = MakeBuffer([](const RemovedItems&) {});
  uint64_t sequence = 0;
  for (auto _ : state) {
    state.PauseTiming();
    const std::string items = EncodedItems(++sequence, state.range(0));
    state.ResumeTiming();
    const SegmentBatch pushed = MakeItems(DecodeBatch(items).value()).value();
    DING_CHECK(buffer->Push(pushed, 0).ok());
  }
}

void AnswerDemandOf(const Coordinator::Options& options, benchmark::State& state) {
  Bench bench(options);
  bench.Push(EncodedItems(1, kRows));
  WorkerMessage message;
  LearnerDemand* const demand = message.mutable_learner_demand();
  demand->set_task_id("learner_task_id1");
  demand->set_batch_size(state.range(0));
  demand->set_batches(1);
  uint64_t sequence = 0;
  for (auto _ : state) {
    demand->set_read(sequence);
    demand->set_sequence(++sequence);
    bench.Handle(kLearner, message);
  }
}

void AnswerDemand(benchmark::State& state) { AnswerDemandOf({}, state); }

void AnswerDemandLimited(benchmark::State& state) {
  AnswerDemandOf(Limited(), state);
  state.SetLabel("aim=0.95");
}

void AnswerDemandLimitedBaseline(benchmark::State& state) { AnswerDemandOf({}, state); }

void AnswerDemandBaseline(benchmark::State& state) {
  const std::unique_ptr<IBuffer> buffer = MakeBuffer([](const RemovedItems&) {});
  DING_CHECK(buffer->Push(TestItemsOfChunk(1, kRows), 0).ok());
  for (auto _ : state) {
    std::string items = EncodedBatch(buffer->Sample(state.range(0), 0).value()).ToString();
    benchmark::DoNotOptimize(items.data());
  }
}

// The state of a run with a learner and collectors at work.
class StateBench {
 public:
  explicit StateBench(int collectors)
      : parts_(MakeParts(&sender_, collectors)), run_(Options(collectors), &parts_, 1) {
    Event start;
    start.set_start(true);
    Apply(&start);
    Join(kLearner, Hello::LEARNER);
    Event started;
    started.set_worker(kLearner);
    started.mutable_message()->mutable_task_started()->set_task_id("learner_task_id1");
    Apply(&started);
    for (int i = 0; i < collectors; ++i) {
      Join(kCollector + static_cast<uint32_t>(i), Hello::COLLECTOR);
    }
  }

  void Apply(Event* event) {
    nanos_ += 1000000;
    event->set_nanos(nanos_);
    const internal_coordinator::Outcome outcome = internal_coordinator::Apply(*event, &run_);
    DING_CHECK(outcome.status.ok()) << outcome.status;
    run_.effects.messages.clear();
    run_.effects.deleted.clear();
  }
  // The next event with data of the first collector.
  Event Data(int64_t items) {
    Event event;
    event.set_worker(kCollector);
    CollectorData* const data = event.mutable_message()->mutable_collector_data();
    data->set_task_id("collector_task_id1");
    data->set_sequence(++sequence_);
    data->set_items(EncodedItems(sequence_, items));
    return event;
  }

 private:
  static Coordinator::Options Options(int collectors) {
    Coordinator::Options options;
    options.collectors = collectors;
    return options;
  }
  void Join(uint32_t worker, Hello::Role role) {
    Event joined;
    joined.set_worker(worker);
    joined.mutable_joined()->mutable_hello()->set_role(role);
    Apply(&joined);
  }

  NullSender sender_;
  Coordinator::Parts parts_;
  internal_coordinator::RunState run_;
  int64_t nanos_ = 1;
  uint64_t sequence_ = 0;
};

void ApplyData(benchmark::State& state) {
  StateBench bench(static_cast<int>(state.range(1)));
  std::vector<Event> events;
  for (auto _ : state) {
    if (events.empty()) {
      state.PauseTiming();
      for (int i = 0; i < 512; ++i) events.push_back(bench.Data(state.range(0)));
      std::reverse(events.begin(), events.end());
      state.ResumeTiming();
    }
    bench.Apply(&events.back());
    events.pop_back();
  }
}

BENCHMARK(ApplyData)->Args({64, 1})->Args({64, 1000})->Args({100, 1});
BENCHMARK(TakeData)->Arg(1)->Arg(64)->Arg(1024);
BENCHMARK(TakeDataBaseline)->Arg(1)->Arg(64)->Arg(1024);
BENCHMARK(AnswerDemand)->Arg(64)->Arg(1024);
BENCHMARK(AnswerDemandBaseline)->Arg(64)->Arg(1024);
BENCHMARK(TakeDataLimited)->Arg(64);
BENCHMARK(TakeDataLimitedBaseline)->Arg(64);
BENCHMARK(AnswerDemandLimited)->Arg(64);
BENCHMARK(AnswerDemandLimitedBaseline)->Arg(64);

}  // namespace
}  // namespace ding
