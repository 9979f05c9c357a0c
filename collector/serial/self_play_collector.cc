#include "ding_worker/collector/serial/self_play_collector.h"

#include <cstddef>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"
#include "ding_worker/env/game_spec.h"

namespace ding {
namespace {

constexpr char kMovesScope[] = "own_moves";  // in saved states
// The number of consecutive collects without a row to return, after which Collect() fails.
constexpr int kMaxEmptyCollects = 1000;

// Makes training data of the rows of all players, which must be alike.
absl::StatusOr<TurnTransitions> MovesOf(const EnvSpec& game, const CollectMode& policy) {
  DING_RETURN_IF_ERROR(CheckSamePlayers(game));
  return TurnTransitions::Create(PlayerSpec(game), policy.output_spec());
}

std::vector<CollectMode*> SeatsOf(const EnvSpec& game, CollectMode* seat) {
  return std::vector<CollectMode*>(static_cast<size_t>(game.players), seat);
}

}  // namespace

// The policy in a seat of a game. Its rows become training data together with those of all seats.
class SelfPlayCollector::Seat : public CollectMode {
 public:
  explicit Seat(CollectMode* policy) : policy_(policy) {}

  CollectMode* policy() const { return policy_; }
  void set_policy(CollectMode* policy) { policy_ = policy; }
  const SpecPtr& output_spec() const override { return policy_->output_spec(); }
  CollectAttributes attributes() const override { return policy_->attributes(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override {
    return policy_->Forward(obs, env_ids, settings, out);
  }
  absl::Status ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                           const NamedValues& settings, const TensorMap& tensors,
                           const MutableColumnsView& out) override {
    return policy_->ForwardWith(obs, env_ids, settings, tensors, out);
  }
  absl::Status Reset(absl::Span<const int> env_ids) override { return policy_->Reset(env_ids); }
  absl::Status LoadModel(StateReader* reader) override { return policy_->LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override { return policy_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return policy_->LoadState(reader); }

 private:
  CollectMode* policy_;
};

absl::StatusOr<std::unique_ptr<SelfPlayCollector>> SelfPlayCollector::Create(
    const MakeBattleCollector& make, EnvManager* env, CollectMode* policy, absl::string_view name) {
  if (env == nullptr || policy == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", env == nullptr ? "no env manager" : "no policy"));
  }
  const EnvSpec& game = env->env_spec();
  if (game.players < 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": env '", game.name, "' has 1 player, expected a game of at least 2 for self-play"));
  }
  absl::StatusOr<TurnTransitions> moves = MovesOf(game, *policy);
  if (!moves.ok()) return Annotate(moves.status(), name);
  auto collector = absl::WrapUnique(
      new SelfPlayCollector(name, env, std::make_unique<Seat>(policy), *std::move(moves)));
  DING_ASSIGN_OR_RETURN(collector->games_, make(env, SeatsOf(game, collector->seat_.get())));
  return collector;
}

SelfPlayCollector::SelfPlayCollector(absl::string_view name, EnvManager* env,
                                     std::unique_ptr<Seat> seat, TurnTransitions moves)
    : name_(name), env_(env), seat_(std::move(seat)), moves_(std::move(moves)) {}

SelfPlayCollector::~SelfPlayCollector() = default;

absl::Status SelfPlayCollector::Use(EnvManager* env, CollectMode* policy,
                                    absl::FunctionRef<absl::Status(const Seats& seats)> reset) {
  EnvManager* const next_env = env == nullptr ? env_ : env;
  CollectMode* const before = seat_->policy();
  if (policy != nullptr) seat_->set_policy(policy);
  const auto change = [&]() -> absl::Status {
    DING_ASSIGN_OR_RETURN(TurnTransitions moves, MovesOf(next_env->env_spec(), *seat_));
    DING_RETURN_IF_ERROR(reset(SeatsOf(next_env->env_spec(), seat_.get())));
    moves.ContinueAfter(moves_);
    moves_ = std::move(moves);
    env_ = next_env;
    return absl::OkStatus();
  };
  const absl::Status status = change();
  if (!status.ok()) seat_->set_policy(before);
  return status;
}

absl::Status SelfPlayCollector::ResetEnv(EnvManager* env) {
  return Use(env, nullptr, [&](const Seats& /*seats*/) { return games_->ResetEnv(env); });
}

absl::Status SelfPlayCollector::ResetPolicy(CollectMode* policy) {
  if (policy != nullptr) {
    return Use(nullptr, policy, [&](const Seats& seats) { return games_->ResetPolicies(seats); });
  }
  DING_RETURN_IF_ERROR(games_->ResetPolicies({}));
  moves_.DropHeld();
  return absl::OkStatus();
}

absl::Status SelfPlayCollector::Reset(CollectMode* policy, EnvManager* env) {
  return Use(env, policy, [&](const Seats& seats) { return games_->Reset(seats, env); });
}

absl::Status SelfPlayCollector::DropEpisodes(absl::Span<const int> env_ids) {
  // TurnTransitions handles the gap in the numbers of rows.
  return games_->DropEpisodes(env_ids);
}

absl::StatusOr<SegmentBatch> SelfPlayCollector::Collect(const CollectOptions& options) {
  if (!options.level_seeds.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(name_, ": level seeds are given, but self-play does not store them"));
  }
  if (seat_->attributes().on_policy) moves_.DropHeld();
  SegmentBatch data;
  for (int i = 0; data.size() == 0; ++i) {
    if (i == kMaxEmptyCollects) {
      return absl::FailedPreconditionError(
          absl::StrCat(name_, ": in ", i,
                       " collects, no player had a choice (an action mask with two legal "
                       "actions) whose outcome was seen, expected one at least"));
    }
    DING_ASSIGN_OR_RETURN(const BattleData collected, games_->Collect(options));
    absl::StatusOr<SegmentBatch> moves = moves_.Take(collected.players);
    if (!moves.ok()) return Annotate(moves.status(), name_);
    data = *std::move(moves);
  }
  DING_RETURN_IF_ERROR(Annotate(CallPolicy([&]() -> absl::Status {
                                  DING_ASSIGN_OR_RETURN(
                                      data, seat_->policy()->GetTrainSample(std::move(data)));
                                  return absl::OkStatus();
                                }),
                                name_));
  return data;
}

absl::Status SelfPlayCollector::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(games_->SaveState(writer));
  ScopedStateWriter scoped(writer, kMovesScope);
  return moves_.SaveState(&scoped);
}

absl::Status SelfPlayCollector::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(TurnTransitions moves, MovesOf(env_->env_spec(), *seat_));
  ScopedStateReader scoped(reader, kMovesScope);
  DING_RETURN_IF_ERROR(moves.LoadState(&scoped));
  DING_RETURN_IF_ERROR(games_->LoadState(reader));
  moves_ = std::move(moves);
  return absl::OkStatus();
}

}  // namespace ding
