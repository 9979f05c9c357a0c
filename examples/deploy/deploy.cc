// Reads observations of CartPole, a line of four numbers each, and prints the best action: 0 left,
// 1 right. With --time it prints how long Act() takes instead.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/policy/actor/actor.h"

namespace {

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return 1;
}

int64_t Nanoseconds() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// The first call, and the mean of many.
void PrintTimes(ding::Actor* actor, const ding::ColumnsView& obs) {
  constexpr int kCalls = 10000;
  const int64_t start = Nanoseconds();
  const bool first_ok = actor->Act(obs).ok();
  const int64_t after_first = Nanoseconds();
  bool ok = first_ok;
  for (int i = 0; i < kCalls; ++i) ok = actor->Act(obs).ok() && ok;
  const int64_t end = Nanoseconds();
  std::printf("first action %.2f us, then %.2f us each%s\n", 1e-3 * (after_first - start),
              1e-3 * (end - after_first) / kCalls, ok ? "" : ", but some failed");
}

}  // namespace

int main(int argc, char** argv) {
  const bool time = argc > 2 && std::strcmp(argv[2], "--time") == 0;
  if (argc < 2 || (argc > 2 && !time)) {
    std::fprintf(stderr, "usage: deploy CHECKPOINT [--time]\n");
    return 2;
  }
  auto actor = ding::Actor::Load(argv[1]);
  if (!actor.ok()) return Fail(actor.status());
  auto row = ding::BatchBuilder::Create((*actor)->observation(), /*capacity_rows=*/1);
  if (!row.ok()) return Fail(row.status());
  const absl::Span<float> obs = row->column<float>(0);
  if (obs.size() != 4) {
    std::fprintf(stderr, "the policy observes %zu numbers, expected the 4 of CartPole\n",
                 obs.size());
    return 1;
  }
  for (float& value : obs) value = 0;
  if (time) {
    PrintTimes(actor->get(), row->view());
    return 0;
  }
  while (std::scanf("%f %f %f %f", &obs[0], &obs[1], &obs[2], &obs[3]) == 4) {
    const absl::StatusOr<ding::ColumnsView> action = (*actor)->Act(row->view());
    if (!action.ok()) return Fail(action.status());
    std::printf("%d\n", static_cast<int>(action->column<int64_t>(0)[0]));
    std::fflush(stdout);
  }
  return 0;
}
