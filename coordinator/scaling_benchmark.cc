// How much a coordinator costs with many workers: docs/explanation/scaling.md. Run it by hand:
//
//   bazel run //coordinator:scaling -- [--workers=10,100,1000] [--seconds=5]
//
// It prints a row of a table for each number of workers. The workers are simulated, and so is the
// time: each simulated second, every collector sends 10 messages with 100 rows each, the learner
// sends 200 demands for 256 rows, 10 reports, and a version of its policy. Only what the
// coordinator does with them is measured, not how they are made or travel.
#include <malloc.h>
#include <sys/resource.h>

#include <cstdint>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "ding_worker/base/check.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/coordinator/coordinator.h"
#include "ding_worker/coordinator/testing/naive_commander.h"
#include "ding_worker/data/segment.h"
#include "ding_worker/data/wire.h"
#include "ding_worker/interaction/messages.pb.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/metrics/sink.h"
#include "ding_worker/replay_buffer/buffer.h"
#include "ding_worker/replay_buffer/naive_buffer.h"
#include "ding_worker/replay_buffer/testing/test_streams.h"
#include "gflags/gflags.h"

DEFINE_string(workers, "10,100,300,1000,2000", "numbers of collectors, each at least 1");
DEFINE_int32(seconds, 5, "how many simulated seconds are measured, at least 1");

namespace ding {
namespace {

constexpr uint32_t kLearner = 1;
constexpr int kMessages = 10;  // of a collector in a second
constexpr int64_t kRows = 100;
constexpr int kDemands = 20;  // between two messages of a collector
constexpr char kLearnerTask[] = "learner_task_id1";
constexpr char kPolicy[] = "test.pth";

// The memory that is in use, in bytes.
double HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

// The CPU time of all threads of the process.
double CpuSeconds() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

class CountingSender : public CoordinatorSender {
 public:
  void Send(uint32_t /*worker*/, const CoordinatorMessage& message) override {
    bytes_ += static_cast<int64_t>(message.ByteSizeLong());
  }

 private:
  int64_t bytes_ = 0;
};

class Load {
 public:
  explicit Load(int collectors) : collectors_(static_cast<uint32_t>(collectors)) {
    Coordinator::Options options;
    options.collectors = collectors;
    Coordinator::Parts parts;
    NaiveCommander::Options commander;
    commander.collector_task_space = collectors;
    parts.commander = NaiveCommander::Create(commander).value();
    parts.make_buffer = [](const std::string&, absl::Span<const std::string> /*settings*/,
                           OnRemoved on_removed) {
      NaiveReplayBuffer::Options buffer;
      buffer.capacity_rows = 1000000;
      buffer.on_removed = std::move(on_removed);
      return NaiveReplayBuffer::Create(buffer);
    };
    parts.delete_key = [](const std::string&) { return absl::OkStatus(); };
    parts.sender = &sender_;
    ComponentDeps deps;
    deps.clock = &clock_;
    coordinator_ = Coordinator::Create(options, std::move(parts), deps).value();
    coordinator_->Start();
    Join(kLearner, Hello::LEARNER);
    WorkerMessage started;
    started.mutable_task_started()->set_task_id(kLearnerTask);
    Handle(kLearner, started);
    const double before = HeapBytes();
    for (uint32_t i = 0; i < collectors_; ++i) Join(kLearner + 1 + i, Hello::COLLECTOR);
    coordinator_->counters();  // waits until they have joined
    join_bytes_ = HeapBytes() - before;
  }

  // Returns the CPU time of a simulated second.
  double Second() {
    double cpu = 0;
    for (int message = 0; message < kMessages; ++message) {
      std::vector<std::pair<uint32_t, WorkerMessage>> messages = NextMessages();
      clock_.Advance(absl::Seconds(1) / kMessages);
      const double before = CpuSeconds();
      for (const auto& [worker, one] : messages) Handle(worker, one);
      coordinator_->counters();  // waits until all are handled
      cpu += CpuSeconds() - before;
      handled_ += static_cast<int64_t>(messages.size());
    }
    return cpu;
  }

  int64_t handled() const { return handled_; }
  double join_bytes() const { return join_bytes_; }

 private:
  void Join(uint32_t worker, Hello::Role role) {
    Hello hello;
    hello.set_role(role);
    hello.set_name(absl::StrCat("worker-", worker));
    coordinator_->WorkerJoined(worker, hello, "127.0.0.1:1");
  }
  void Handle(uint32_t worker, const WorkerMessage& message) {
    coordinator_->Handle(worker, message,
                         [](const absl::Status& status) { DING_CHECK(status.ok()) << status; });
  }
  // Returns what the workers send in a tenth of a second: one message from each collector, and some
  // from the learner.
  std::vector<std::pair<uint32_t, WorkerMessage>> NextMessages() {
    std::vector<std::pair<uint32_t, WorkerMessage>> messages;
    ++sequence_;
    for (uint32_t i = 0; i < collectors_; ++i) {
      const uint32_t worker = kLearner + 1 + i;
      CollectorData* const data =
          messages.emplace_back(worker, WorkerMessage()).second.mutable_collector_data();
      data->set_task_id(absl::StrCat("collector_task_id", i + 1));
      data->set_sequence(sequence_);
      const int64_t chunk = ChunkNumber(worker, static_cast<uint32_t>(sequence_));
      data->set_items(EncodedBatch(TestItemsOfChunk(chunk, kRows).rows).ToString());
      data->mutable_progress()->set_cur_step(static_cast<int64_t>(sequence_) * kRows);
    }
    for (int i = 0; i < kDemands; ++i) {
      LearnerDemand* const demand =
          messages.emplace_back(kLearner, WorkerMessage()).second.mutable_learner_demand();
      demand->set_task_id(kLearnerTask);
      demand->set_batch_size(256);
      demand->set_batches(1);
      demand->set_read(demands_);
      demand->set_sequence(++demands_);
      demand->set_train_iter(static_cast<int64_t>(demands_));
    }
    LearnerInfo* const info =
        messages.emplace_back(kLearner, WorkerMessage()).second.mutable_learner_info();
    info->set_task_id(kLearnerTask);
    info->set_learner_step(static_cast<int64_t>(demands_));
    if (sequence_ % kMessages == 0) {
      PolicyVersion* const version =
          messages.emplace_back(kLearner, WorkerMessage()).second.mutable_policy_version();
      version->set_policy_id(kPolicy);
      version->set_version(++versions_);
      version->set_train_iter(static_cast<int64_t>(demands_));
      version->set_key(PolicyKey(kPolicy, versions_, kLearner));
    }
    return messages;
  }

  const uint32_t collectors_;
  SimulatedClock clock_;
  CountingSender sender_;
  std::unique_ptr<Coordinator> coordinator_;
  uint64_t sequence_ = 0;
  uint64_t demands_ = 0;
  uint64_t versions_ = 0;
  int64_t handled_ = 0;
  double join_bytes_ = 0;
};

void Print(int collectors) {
  Load load(collectors);
  load.Second();  // fills the buffer and the caches
  const int64_t before = load.handled();
  double cpu = 0;
  for (int i = 0; i < FLAGS_seconds; ++i) cpu += load.Second();
  const auto messages = static_cast<double>(load.handled() - before);
  std::cout << std::fixed << "| " << collectors << " | " << std::setprecision(0)
            << messages / FLAGS_seconds << " | " << std::setprecision(1)
            << 100 * cpu / FLAGS_seconds << " % | " << std::setprecision(2) << 1e6 * cpu / messages
            << " | " << std::setprecision(1) << load.join_bytes() / 1024 / collectors << " | "
            << std::setprecision(0) << HeapBytes() / (1024 * 1024) << " |" << std::endl;
}

int Main() {
  SetMinLogSeverity(LogSeverity::kWarning);
  std::vector<int> numbers;
  for (const auto& text : absl::StrSplit(FLAGS_workers, ',')) {
    int collectors = 0;
    if (!absl::SimpleAtoi(text, &collectors) || collectors < 1 || FLAGS_seconds < 1) {
      std::cerr << "--workers=" << FLAGS_workers << " --seconds=" << FLAGS_seconds
                << ", expected numbers of at least 1\n";
      return 2;
    }
    numbers.push_back(collectors);
  }
  std::cout
      << "| collectors | messages/s | CPU | us per message | KiB per collector | heap, MiB |\n"
         "|---|---|---|---|---|---|\n";
  for (const int collectors : numbers) Print(collectors);
  return 0;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  return ding::Main();
}
