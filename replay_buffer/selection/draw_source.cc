#include "ding_worker/replay_buffer/selection/draw_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/call_user.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/replay_buffer/storage/buffer_checks.h"

namespace ding {
namespace {

// The `size` oldest candidates of others.
class OldestCandidates : public Candidates {
 public:
  OldestCandidates(const Candidates& all, int64_t size) : all_(all), size_(size) {}
  int64_t size() const override { return size_; }
  int64_t Id(int64_t rank) const override { return all_.Id(rank); }

 private:
  const Candidates& all_;
  const int64_t size_;
};

}  // namespace

absl::Status DrawSource::Select(const DrawRequest& request, absl::Span<int64_t> ids) {
  if (request.selector->ByPriority()) return DrawByPriority(request, ids);
  const OldestCandidates from(*this, request.end_rank);
  DING_RETURN_IF_ERROR(CallUser("the selector", [&] {
    return request.selector->Select(from, request.end_rank - request.first_rank, request.replace,
                                    request.rng, ids);
  }));
  // RanksToIds() looks for ranks beyond all candidates.
  const bool in_range = request.end_rank == size() || InRange(ids, request.end_rank);
  if (in_range && RanksToIds(ids)) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("the selector chose a rank that no candidate has, "
                   "expected 0 to ",
                   request.end_rank - 1));
}

absl::Status DrawKind::CheckSaved(StateReader* reader) const {
  DING_RETURN_IF_ERROR(CheckSavedType(reader, state_type()));
  return CheckSavedVersion(reader, state_version());
}

absl::Status DrawKind::CheckSequence(int64_t rows) const {
  return absl::InvalidArgumentError(absl::StrCat(
      "sequences of ", rows, " rows are asked for (SampleOptions::sequence), but the buffer draws ",
      candidates(), "; leave the option out, or use a buffer of type 'sequence'"));
}

absl::Status RowSource::Draw(const DrawRequest& request, std::optional<TransitionDraw>* draw) {
  DING_RETURN_IF_ERROR(reader().Start(request.size, draw));
  return Select(request, (*draw)->ids());
}

bool RowSource::RanksToIds(absl::Span<int64_t> ranks) const {
  if (!InRange(ranks, size())) return false;
  const int64_t begin = store().begin_id();
  for (int64_t& rank : ranks) rank += begin;
  return true;
}

absl::StatusOr<std::unique_ptr<DrawSource>> RowDraws::MakeSource(std::shared_ptr<RowStore> store) {
  DING_ASSIGN_OR_RETURN(std::shared_ptr<TransitionReader> reader,
                        TransitionReader::Create(std::move(store), nstep_, gamma_));
  return std::make_unique<RowSource>(std::move(reader));
}

}  // namespace ding
