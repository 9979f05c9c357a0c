#include "ding_worker/interaction/testing/worker_fuzz.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "ding_worker/base/rng.h"
#include "ding_worker/interaction/testing/fake_coordinator.h"
#include "ding_worker/interaction/testing/message_mutator.h"
#include "gtest/gtest.h"

namespace ding {
namespace {

constexpr uint64_t kRuns = 100;
constexpr int kMessages = 30;
constexpr absl::Duration kLong = absl::Minutes(1);
constexpr absl::Duration kShort = absl::Milliseconds(2);

}  // namespace

void FuzzWorker(const std::function<CoordinatorMessage(Mutator*)>& say,
                const std::function<absl::StatusOr<EndRun>(WorkerSession*)>& run) {
  std::map<absl::StatusCode, int> ends;
  Fuzz(kRuns, [&](Mutator* mutator) {
    FakeCoordinator coordinator;
    const std::unique_ptr<WorkerSession> worker = coordinator.Join();
    absl::StatusOr<EndRun> end = absl::UnknownError("runs");
    std::thread running([&] { end = run(worker.get()); });
    for (int i = 0; i < kMessages && mutator->more(); ++i) {
      CoordinatorMessage message = say(mutator);
      if (mutator->Coin()) MutateMessage(mutator, &message);
      std::string bytes = message.SerializeAsString();
      if (mutator->rng()->UniformInt(50) == 0) bytes = mutator->Mutate(bytes);
      coordinator.session()->Send(bytes, kLong).IgnoreError();
      // Messages are often sent all at once, and sometimes after the worker has made progress.
      if (mutator->rng()->UniformInt(4) == 0) {
        coordinator.session()->Receive(kShort).status().IgnoreError();
      }
    }
    if (mutator->Coin()) {
      CoordinatorMessage message;
      message.mutable_end_run()->set_reason("over");
      coordinator.session()->Send(message.SerializeAsString(), kLong).IgnoreError();
    }
    coordinator.session()->Close("over");
    running.join();
    ++ends[end.status().code()];
  });
  if (FuzzRounds(kRuns) < kRuns) return;
  EXPECT_GE(ends.size(), 3u)
      << "runs must end with EndRun, with a lost session, and with an invalid message";
}

}  // namespace ding
