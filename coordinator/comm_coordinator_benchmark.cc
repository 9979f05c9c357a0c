// Acknowledgements per second of a coordinator with that many collectors, over gRPC between threads
// of one process.
//
//   Acknowledge/workers   each collector has up to 32 announcements of one row under way. `cpu_us`:
//                         processor time of both sides for one acknowledgement, which a busy
//                         machine changes less than the rate
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/coordinator/comm_coordinator.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/naive_commander.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/control/worker_session.h"
#include "ding_worker/interaction/grpc/grpc_transport.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"

namespace ding {
namespace {

constexpr absl::Duration kLong = absl::Minutes(1);
constexpr int kUnderWay = 32;
constexpr int kAtOnce =
    kUnderWay / 2;           // that a collector sends before it looks for acknowledgements
constexpr int kThreads = 2;  // that play the collectors
constexpr int64_t kAcknowledgements = 32768;

// A collector whose messages are made before they are sent.
struct Collector {
  std::unique_ptr<WorkerSession> session;
  std::string task_id;
  std::vector<WorkerMessage> messages;
  size_t sent = 0;
  size_t acknowledged = 0;

  void Send(int count) {
    for (; count > 0 && sent < messages.size(); --count) {
      DING_CHECK(session->Send(messages[sent++], kLong).ok());
    }
  }
  void Receive(int count) {
    while (count > 0 && acknowledged < messages.size()) {
      const absl::StatusOr<CoordinatorMessage> message = session->Receive(kLong);
      DING_CHECK(message.ok()) << message.status();
      if (!message->has_collector_data_ack()) continue;
      ++acknowledged;
      --count;
    }
  }
};

class Bench {
 public:
  explicit Bench(int workers) : collectors_(static_cast<size_t>(workers)) {
    CommCoordinator::Options comm;
    comm.address = "127.0.0.1:0";
    comm_ = CommCoordinator::Create(comm, &transport_).value();
    NaiveCommander::Options commander;
    commander.collector_task_space = workers;
    Coordinator::Parts parts;
    parts.commander = NaiveCommander::Create(commander).value();
    parts.make_buffer = [](const std::string&, absl::Span<const std::string> /*settings*/,
                           OnRemoved on_removed) {
      NaiveReplayBuffer::Options options;
      options.capacity_rows = 10000;
      options.on_removed = std::move(on_removed);
      return NaiveReplayBuffer::Create(options);
    };
    parts.delete_key = [](const std::string&) { return absl::OkStatus(); };
    parts.sender = comm_.get();
    Coordinator::Options options;
    options.collectors = workers;
    coordinator_ = Coordinator::Create(options, std::move(parts), ComponentDeps()).value();
    coordinator_->Start();
    DING_CHECK(comm_->Start(coordinator_.get()).ok());
    learner_ = Join(Hello::LEARNER, "learner");
    WorkerMessage started;
    started.mutable_task_started()->set_task_id(
        learner_->Receive(kLong).value().start_task().learner().task_id());
    DING_CHECK(learner_->Send(started, kLong).ok());
    for (Collector& collector : collectors_) {
      collector.session = Join(Hello::COLLECTOR, absl::StrCat("c", &collector - &collectors_[0]));
      collector.task_id =
          collector.session->Receive(kLong).value().start_task().collector().task_id();
    }
  }
  ~Bench() {
    comm_->Close("measured");
    coordinator_->Close("measured").IgnoreError();
  }

  // Makes the messages of all collectors, `count` of each.
  void Prepare(int64_t count) {
    for (Collector& collector : collectors_) {
      collector.messages.clear();
      collector.sent = collector.acknowledged = 0;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t chunk = ChunkNumber(collector.session->welcome().worker(),
                                          static_cast<uint32_t>(sequence_ + i));
        CollectorData* const data = collector.messages.emplace_back().mutable_collector_data();
        data->set_task_id(collector.task_id);
        data->set_sequence(static_cast<uint64_t>(sequence_ + i));
        data->set_items(EncodedBatch(TestItemsOfChunk(chunk, 1).rows).ToString());
      }
    }
    sequence_ += count;
  }
  // Sends them, and waits for all acknowledgements.
  void Run() {
    std::vector<std::thread> threads;
    for (size_t first = 0; first < kThreads; ++first) {
      threads.emplace_back([this, first] {
        for (size_t i = first; i < collectors_.size(); i += kThreads)
          collectors_[i].Send(kUnderWay);
        for (bool more = true; more;) {
          more = false;
          for (size_t i = first; i < collectors_.size(); i += kThreads) {
            collectors_[i].Receive(kAtOnce);
            collectors_[i].Send(kAtOnce);
            more = more || collectors_[i].acknowledged < collectors_[i].messages.size();
          }
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::unique_ptr<WorkerSession> Join(Hello::Role role, const std::string& name) {
    Hello hello;
    hello.set_role(role);
    hello.set_name(name);
    return WorkerSession::Join(&transport_, comm_->address(), hello, {}).value();
  }

  GrpcTransport transport_;
  std::unique_ptr<CommCoordinator> comm_;
  std::unique_ptr<Coordinator> coordinator_;
  std::unique_ptr<WorkerSession> learner_;
  std::vector<Collector> collectors_;
  int64_t sequence_ = 1;
};

void Acknowledge(benchmark::State& state) {
  Bench bench(static_cast<int>(state.range(0)));
  std::clock_t cpu = 0;
  for (auto _ : state) {
    bench.Prepare(kAcknowledgements / state.range(0));
    const Timer timer(Clock::Real());
    cpu -= std::clock();
    bench.Run();
    cpu += std::clock();
    state.SetIterationTime(timer.Seconds());
  }
  state.SetItemsProcessed(state.iterations() * kAcknowledgements);
  state.counters["cpu_us"] = 1e6 * static_cast<double>(cpu) / CLOCKS_PER_SEC /
                             static_cast<double>(state.iterations() * kAcknowledgements);
}

BENCHMARK(Acknowledge)->Arg(1)->Arg(64)->Arg(256)->UseManualTime();

}  // namespace
}  // namespace ding
