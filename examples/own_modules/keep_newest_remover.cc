// A remover: "keep_newest" removes all but the newest rows of a buffer, before each draw. A buffer
// of type "advanced" takes one.
//   replay_buffer { type: "advanced" remover { type: "keep_newest" } }
#include <memory>
#include <vector>

#include "ding_worker/replay_buffer/buffer_registry.h"
#include "own_modules.pb.h"

namespace own {
namespace {

class KeepNewest : public ding::IRemover {
 public:
  explicit KeepNewest(int64_t rows) : rows_(rows) {}

  absl::Status Remove(const ding::Candidates& rows, int64_t /*learner_iter*/,
                      std::vector<int64_t>* ids) override {
    for (int64_t rank = 0; rank < rows.size() - rows_; ++rank) ids->push_back(rows.Id(rank));
    return absl::OkStatus();
  }

 private:
  const int64_t rows_;
};

DING_REGISTER(
    ding::RemoverRegistry(), "keep_newest",
    [](const ding::RemoverConfig&,
       const KeepNewestParams& params) -> absl::StatusOr<std::unique_ptr<ding::IRemover>> {
      if (params.rows() < 1)
        return absl::InvalidArgumentError("rows is below 1, expected at least 1");
      return std::make_unique<KeepNewest>(params.rows());
    },
    "removes all but the newest rows");

}  // namespace
}  // namespace own
