// Runs simulations of the control plane, one after the other, until one breaks a rule.
//
//   simulate --runs=100000 --seed=7 [--plant=3] [--threads=2]
//
// Exits with 0 if all runs are clean, with 1 if one breaks a rule (it prints the seed, the step and
// the rule, and what happened with as few faults as possible), and with 2 if it is used wrongly.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "ding_worker/base/clock.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/thread.h"
#include "ding_worker/coordinator/simulation/planted_bug.h"
#include "ding_worker/coordinator/simulation/simulation.h"
#include "gflags/gflags.h"

DEFINE_int64(runs, 2000, "the number of runs, at least 1");
DEFINE_uint64(seed, 0, "the seed of the first run; each further one has the next seed");
DEFINE_int32(plant, 0, "the number of the bug that is planted, 1 to 10; 0: none");
DEFINE_int32(threads, 2, "how many runs are made at a time, 1 to 64");

namespace ding {
namespace {

// What all runs add up to.
struct Totals {
  int64_t runs = 0;
  int64_t steps = 0;
  uint64_t digest = 0;  // the sum of the runs' digests
  std::array<int64_t, kFaults> faults{};
  bool broken = false;
  uint64_t broken_seed = 0;  // the lowest one
};

void Add(const Totals& more, Totals* totals) {
  totals->runs += more.runs;
  totals->steps += more.steps;
  totals->digest += more.digest;
  for (size_t i = 0; i < kFaults; ++i) totals->faults[i] += more.faults[i];
  if (!more.broken) return;
  totals->broken_seed =
      totals->broken ? std::min(totals->broken_seed, more.broken_seed) : more.broken_seed;
  totals->broken = true;
}

// Makes runs until none is left or one breaks a rule.
Totals RunSome(std::atomic<int64_t>* next, std::atomic<bool>* stop) {
  Totals totals;
  while (!*stop) {
    const int64_t run = (*next)++;
    if (run >= FLAGS_runs) break;
    const uint64_t seed = FLAGS_seed + static_cast<uint64_t>(run);
    const SimulationResult result = Simulate({seed, FLAGS_plant});
    ++totals.runs;
    totals.steps += result.steps;
    totals.digest += result.digest;
    for (size_t i = 0; i < kFaults; ++i) totals.faults[i] += result.faults[i];
    if (result.broken.empty()) continue;
    totals.broken = true;
    totals.broken_seed = seed;
    *stop = true;
  }
  return totals;
}

int Main() {
  if (FLAGS_runs < 1 || FLAGS_plant < 0 || FLAGS_plant > kPlantedBugs || FLAGS_threads < 1 ||
      FLAGS_threads > 64) {
    std::cerr << "simulate: --runs is " << FLAGS_runs << ", --plant " << FLAGS_plant
              << " and --threads " << FLAGS_threads << ", expected at least 1, 0 to "
              << kPlantedBugs << " and 1 to 64\n";
    return 2;
  }
  SetMinLogSeverity(LogSeverity::kError);
  const Timer timer(Clock::Real());
  std::atomic<int64_t> next{0};
  std::atomic<bool> stop{false};
  Mutex mutex;
  Totals totals;
  std::vector<std::thread> threads;
  for (int i = 0; i < FLAGS_threads; ++i) {
    absl::StatusOr<std::thread> thread = StartThread("simulations", [&] {
      const Totals some = RunSome(&next, &stop);
      MutexLock lock(&mutex);
      Add(some, &totals);
    });
    if (!thread.ok()) {
      std::cerr << "simulate: " << thread.status().message() << "\n";
      stop = true;
      break;
    }
    threads.push_back(*std::move(thread));
  }
  for (std::thread& thread : threads) thread.join();
  std::cout << totals.runs << " runs, " << totals.steps << " steps, "
            << absl::FormatDuration(absl::Trunc(timer.Elapsed(), absl::Milliseconds(100))) << "\n";
  std::cout << "  digest " << absl::StrCat(absl::Hex(totals.digest)) << "\n";
  for (size_t i = 0; i < kFaults; ++i) {
    std::cout << "  " << FaultName(static_cast<Fault>(i)) << ": " << totals.faults[i] << "\n";
  }
  if (!totals.broken) return 0;
  const SimulationOptions failing{totals.broken_seed, FLAGS_plant};
  std::cout << "seed " << totals.broken_seed << " breaks a rule: " << Simulate(failing).broken
            << "\n";
  for (const std::string& line : Simulate(Shrink(failing)).trace) std::cout << "  " << line << "\n";
  return 1;
}

}  // namespace
}  // namespace ding

int main(int argc, char** argv) {
  gflags::SetUsageMessage("runs simulations of the control plane");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  if (argc > 1) {
    std::cerr << "simulate: '" << argv[1] << "' is no flag\n";
    return 2;
  }
  return ding::Main();
}
