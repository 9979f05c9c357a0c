// Measures everything that a parallel run does besides acting and learning: two collectors, the
// coordinator and a learner, as threads of one process. All parts are those of a real run: comm
// collectors and learner, sessions over gRPC, a coordinator with a NaiveReplayBuffer, and a store
// of files in /dev/shm. The collectors hand over the same chunk again and again. The learner only
// counts the rows of its batches, and draws as many rows as are pushed. The floors are in
// tools/floors/wire_floors.cc.
//   Rows/rows/floats       chunks of that many rows, with observations of that many floats
//   RowsByRedis/rows/floats  the same with a store in a Redis of this machine
//   Publish                a model of 1 MB, from the end of the iteration that made it until both
//                          collectors have loaded it
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/comm/base_comm_collector.h"
#include "ding_worker/collector/parallel/base_parallel_collector.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/naive_commander.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/named_values.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/spec.h"
#include "ding_worker/data/state.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/redis/testing/redis_server.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/learner/base_learner.h"
#include "ding_worker/learner/comm/base_comm_learner.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/policy/policy.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"

namespace ding {
namespace {

constexpr int kCollectors = 2;
constexpr int64_t kBufferChunks = 1024;
constexpr int64_t kChunksOfABenchmark = 4096;
constexpr int64_t kModelFloats = int64_t{1} << 18;

// A counter that threads wait for. Waits also end when End() is called.
class Progress {
 public:
  void Add(int64_t count) {
    MutexLock lock(&mutex_);
    reached_ += count;
    changed_.SignalAll();
  }
  // Waits until the counter has reached `target`. Returns false if the end came first.
  bool WaitFor(int64_t target) {
    MutexLock lock(&mutex_);
    while (reached_ < target && !over_) changed_.WaitFor(&mutex_, absl::InfiniteDuration());
    return !over_;
  }
  void End() {
    MutexLock lock(&mutex_);
    over_ = true;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int64_t reached_ ABSL_GUARDED_BY(mutex_) = 0;
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

class Collector : public BaseParallelCollector {
 public:
  using Work = std::function<absl::Status(CollectorLink* link)>;
  Collector(CollectorLink* link, Work work) : link_(link), work_(std::move(work)) {}

  absl::Status Run() override {
    while (!closed()) DING_RETURN_IF_ERROR(work_(link_));
    return absl::OkStatus();
  }
  CollectorFinishInfo GetFinishInfo() const override { return {}; }

 private:
  CollectorLink* const link_;
  const Work work_;
};

class CollectorOfTask : public TaskCollector {
 public:
  CollectorOfTask(CollectorLink* link, Collector::Work work) : collector_(link, std::move(work)) {}
  BaseParallelCollector* collector() override { return &collector_; }

 private:
  Collector collector_;
};

class Learn : public LearnMode {
 public:
  using Work = std::function<void(const Batch& data)>;
  Learn(int64_t floats, Work work) : model_(static_cast<size_t>(floats)), work_(std::move(work)) {}

  LearnAttributes attributes() const override { return {}; }
  absl::Status Forward(const Batch& data, const NamedValues& /*settings*/,
                       std::vector<LearnStep>* steps) override {
    work_(data);
    steps->resize(1);
    return absl::OkStatus();
  }
  std::vector<std::string> monitor_vars() const override { return {}; }
  std::string info() const override { return "measured"; }
  absl::Status SaveModel(StateWriter* writer) const override {
    return writer->WriteSpan<float>("model", model_);
  }
  absl::Status LoadModel(StateReader* reader) override {
    return reader->ReadSpan("model", absl::MakeSpan(model_));
  }
  absl::Status SaveTrainState(StateWriter* /*writer*/) const override { return absl::OkStatus(); }
  absl::Status LoadTrainState(StateReader* /*reader*/) override { return absl::OkStatus(); }

 private:
  std::vector<float> model_;
  const Work work_;
};

class LearnerOfTask : public TaskLearner {
 public:
  explicit LearnerOfTask(LearnMode* learn)
      : learner_(BaseLearner::Create({}, learn, {}, ComponentDeps()).value()) {}
  ILearner* learner() override { return learner_.get(); }
  NamedValues LearnSettings(int64_t /*train_iter*/, int64_t /*envstep*/) override { return {}; }

 private:
  const std::unique_ptr<ILearner> learner_;
};

std::string ScratchFolder() {
  return absl::StrCat("/dev/shm/ding_worker-path_benchmark-", getpid());
}

// The processes of a run, as threads.
class Processes {
 public:
  struct Work {
    // Called by each collector whenever it begins a task; makes the closure that does the task's
    // work.
    std::function<Collector::Work()> collect;
    LearnMode* learn = nullptr;
    std::function<void()> end;  // ends the waits inside the other two
  };

  Processes(int64_t capacity_rows, const CommLearnerOptions& learner_options,
            std::unique_ptr<Store> store, Work work)
      : work_(std::move(work)), store_(std::move(store)) {
    CommCoordinator::Options comm;
    comm.address = "127.0.0.1:0";
    comm_ = CommCoordinator::Create(comm, &transport_).value();
    NaiveCommander::Options commander;
    commander.collector_task_space = kCollectors;
    Coordinator::Parts parts;
    parts.commander = NaiveCommander::Create(commander).value();
    parts.make_buffer = [capacity_rows](const std::string&,
                                        absl::Span<const std::string> /*settings*/,
                                        OnRemoved on_removed) {
      NaiveReplayBuffer::Options options;
      options.capacity_rows = capacity_rows;
      options.on_removed = std::move(on_removed);
      return NaiveReplayBuffer::Create(options);
    };
    parts.delete_key = [this](const std::string& key) { return store_->Delete(key); };
    parts.sender = comm_.get();
    Coordinator::Options options;
    options.collectors = kCollectors;
    coordinator_ = Coordinator::Create(options, std::move(parts), ComponentDeps()).value();
    coordinator_->Start();
    DING_CHECK(comm_->Start(coordinator_.get()).ok());
    threads_.emplace_back([this, learner_options] { RunLearner(learner_options); });
    for (int i = 0; i < kCollectors; ++i) threads_.emplace_back([this] { RunCollector(); });
  }

  ~Processes() {
    coordinator_->RequestEnd("measured");
    work_.end();
    for (std::thread& thread : threads_) thread.join();
    comm_->Close("measured");
    DING_CHECK(coordinator_->Close("measured").ok());
    DING_CHECK(store_->Clear().ok());
  }

 private:
  std::unique_ptr<WorkerSession> Join(Hello::Role role) {
    Hello hello;
    hello.set_role(role);
    return WorkerSession::Join(&transport_, comm_->address(), hello, {}).value();
  }
  void RunLearner(const CommLearnerOptions& options) {
    const std::unique_ptr<WorkerSession> session = Join(Hello::LEARNER);
    BaseCommLearner learner(options, session.get(), store_.get(),
                            [this](const LearnerTask&, GroupMember*) {
                              return std::make_unique<LearnerOfTask>(work_.learn);
                            });
    DING_CHECK(learner.Run().ok());
    session->Close("done");
  }
  void RunCollector() {
    const std::unique_ptr<WorkerSession> session = Join(Hello::COLLECTOR);
    BaseCommCollector collector(session.get(), store_.get(),
                                [this](const CollectorTask&, CollectorLink* link) {
                                  return std::make_unique<CollectorOfTask>(link, work_.collect());
                                });
    DING_CHECK(collector.Run().ok());
    session->Close("done");
  }

  const Work work_;
  const std::unique_ptr<Store> store_;
  GrpcTransport transport_;
  std::unique_ptr<CommCoordinator> comm_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::thread> threads_;
};

Batch Touched(const SpecPtr& spec, int64_t rows) {
  BatchBuilder builder = BatchBuilder::Create(spec, rows).value();
  for (int i = 0; i < spec->size(); ++i) {
    // Only possible values are used: categories and iterations are zeros.
    const int byte = spec->field(i).dtype == DType::kFloat32 ? i + 1 : 0;
    std::memset(builder.view().raw_column(i), byte, static_cast<size_t>(rows * spec->row_bytes(i)));
  }
  return std::move(builder).Seal(rows);
}

// Makes a chunk of rows of eight envs.
SegmentBatch MakeChunk(int64_t rows, int64_t floats) {
  SegmentBatch data;
  data.rows =
      Touched(MakeSpec({Box("obs", {floats}), Discrete("action", 2),
                        Scalar("reward", DType::kFloat32), Scalar("collect_iter", DType::kInt64)})
                  .value(),
              rows);
  for (int64_t env = 0; env < 8; ++env) {
    data.segments.push_back({env, 0, env * rows / 8, rows / 8, SegmentEnd::kCut});
  }
  data.final_obs = Touched(MakeSpec({Box("obs", {floats})}).value(), 8);
  return data;
}

int64_t BytesOf(const SegmentBatch& data) {
  return data.rows.rows() * data.rows.spec().row_bytes() +
         data.final_obs.rows() * data.final_obs.spec().row_bytes();
}

void CountWork(const SegmentBatch& chunk, benchmark::State& state) {
  state.SetItemsProcessed(state.iterations() * chunk.rows.rows());
  state.SetBytesProcessed(state.iterations() * BytesOf(chunk));
}

void RowsBy(benchmark::State& state, std::unique_ptr<Store> store) {
  const SegmentBatch chunk = MakeChunk(state.range(0), state.range(1));
  const int64_t rows = chunk.rows.rows();
  // Neither side may be ahead of the other by more rows than this.
  const int64_t ahead = std::max<int64_t>(16 * rows, 4096);
  CommLearnerOptions options;
  options.batch_size = 256;
  options.send_policy_freq = int64_t{1} << 40;
  Progress pushed;
  Progress learned;
  int64_t to_learn = 0;
  Learn learn(1, [&](const Batch& data) {
    to_learn += data.rows();
    learned.Add(data.rows());
    pushed.WaitFor(to_learn - ahead);
  });
  Processes::Work work;
  work.collect = [&] {
    return [&, own = int64_t{0}](CollectorLink* link) mutable -> absl::Status {
      if (!learned.WaitFor(kCollectors * own - ahead)) return absl::OkStatus();
      DING_RETURN_IF_ERROR(link->GetPolicyUpdate(0, 0, absl::ZeroDuration()).status());
      DING_RETURN_IF_ERROR(link->SendData(chunk, {}));
      own += rows;
      pushed.Add(rows);
      return absl::OkStatus();
    };
  };
  work.learn = &learn;
  work.end = [&] {
    pushed.End();
    learned.End();
  };
  Processes processes(kBufferChunks * rows, options, std::move(store), std::move(work));
  int64_t target = 2 * kBufferChunks * rows;  // Chunks leave the buffer by then.
  learned.WaitFor(target);
  constexpr int64_t kStride = 64;
  while (state.KeepRunningBatch(kStride)) learned.WaitFor(target += kStride * rows);
  CountWork(chunk, state);
}

void Rows(benchmark::State& state) { RowsBy(state, FileStore::Create(ScratchFolder()).value()); }

void RowsByRedis(benchmark::State& state) {
  const std::unique_ptr<RedisServer> redis = RedisServer::Start({}).value();
  RowsBy(state, create_store(redis->Url("run")).value());
  state.SetLabel(state.range(1) == 4 ? "aim=100k/s" : "aim=250MB/s");
}

void Publish(benchmark::State& state) {
  const SegmentBatch chunk = MakeChunk(128, 4);
  CommLearnerOptions options;
  options.send_policy_freq = 1;
  Progress wanted;
  Progress loaded;
  int64_t iteration = 0;
  Learn learn(kModelFloats, [&](const Batch&) { wanted.WaitFor(++iteration); });
  Processes::Work work;
  work.collect = [&] {
    auto policy = std::make_shared<Learn>(kModelFloats, [](const Batch&) {});
    return [&, policy, version = uint64_t{0},
            train_iter = int64_t{0}](CollectorLink* link) mutable -> absl::Status {
      DING_ASSIGN_OR_RETURN(const std::optional<PolicyUpdate> update,
                            link->GetPolicyUpdate(0, version, absl::Milliseconds(100)));
      if (!update.has_value()) return absl::OkStatus();
      DING_RETURN_IF_ERROR(policy->LoadModel(update->model.get()));
      if (version == 0) DING_RETURN_IF_ERROR(link->SendData(chunk, {}));
      loaded.Add(update->train_iter - train_iter);
      train_iter = update->train_iter;
      version = update->version;
      return absl::OkStatus();
    };
  };
  work.learn = &learn;
  work.end = [&] {
    wanted.End();
    loaded.End();
  };
  Processes processes(chunk.rows.rows() * kCollectors, options,
                      FileStore::Create(ScratchFolder()).value(), std::move(work));
  int64_t target = 0;
  const auto publish_one = [&] {
    wanted.Add(1);
    loaded.WaitFor(target += kCollectors);
  };
  publish_one();  // After this, all processes have joined.
  for (auto _ : state) publish_one();
  state.SetBytesProcessed(state.iterations() * kModelFloats * static_cast<int64_t>(sizeof(float)));
  state.SetLabel("aim=50ms");
}

void Chunks(benchmark::internal::Benchmark* benchmark) {
  benchmark->Args({128, 4})->Args({1024, 4})->Args({16, 1024});
  benchmark->Iterations(kChunksOfABenchmark)->UseRealTime();
}

BENCHMARK(Rows)->Apply(Chunks);
BENCHMARK(RowsByRedis)->Apply(Chunks);
BENCHMARK(Publish)->UseRealTime();

}  // namespace
}  // namespace ding
