// The example of docs/how_to/use_a_policy.md: acts with the policy of a checkpoint. Each line of
// the input is an observation; the output is its action.
#include <cstdint>
#include <iostream>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "ding_worker/data/batch.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/worker/saved_policy/saved_policy.h"

int Fail(const absl::Status& status) {
  std::cerr << status.message() << "\n";
  return 1;
}

int main(int argc, char** argv) {
  auto policy = ding::SavedPolicy::Load(argc > 1 ? argv[1] : "run/ckpt/ckpt_best");
  if (!policy.ok()) return Fail(policy.status());
  auto row = ding::BatchBuilder::Create((*policy)->observation(), /*capacity_rows=*/1);
  if (!row.ok()) return Fail(row.status());
  const absl::Span<float> obs = row->column<float>(0);  // CartPole: x, dx/dt, angle, dangle/dt
  while (std::cin >> obs[0] >> obs[1] >> obs[2] >> obs[3]) {
    const absl::StatusOr<ding::ColumnsView> action = (*policy)->Act(row->view());
    if (!action.ok()) return Fail(action.status());
    std::cout << action->column<int64_t>(0)[0] << std::endl;  // 0 left, 1 right
  }
  return 0;
}
