#include "ding_worker/collector/serial/self_play_collector.h"

#include <cstddef>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/collector/core/serial_common.h"
#include "ding_worker/data/tensor.h"
#include "ding_worker/env/env.h"

namespace ding {
namespace {

// In saved states, by side.
constexpr const char* kMovesScopes[] = {"own_moves", "opponent_moves"};
// The number of consecutive collects without a row to return, after which Collect() fails.
constexpr int kMaxEmptyCollects = 1000;

}  // namespace

// The policy in a seat of a game. Its rows become training data together with those of all seats.
class SelfPlayCollector::Seat : public CollectMode {
 public:
  explicit Seat(CollectMode* policy) : policy_(policy) {}

  CollectMode* policy() const { return policy_; }
  void set_policy(CollectMode* policy) { policy_ = policy; }
  // The settings of later forward passes. They replace those that Collect() passes.
  void set_settings(NamedValues settings) { settings_ = std::move(settings); }
  const SpecPtr& output_spec() const override { return policy_->output_spec(); }
  CollectAttributes attributes() const override { return policy_->attributes(); }
  absl::Status Forward(const ColumnsView& obs, absl::Span<const int> env_ids,
                       const NamedValues& settings, const MutableColumnsView& out) override {
    return policy_->Forward(obs, env_ids, settings_.has_value() ? *settings_ : settings, out);
  }
  absl::Status ForwardWith(const ColumnsView& obs, absl::Span<const int> env_ids,
                           const NamedValues& settings, const TensorMap& tensors,
                           const MutableColumnsView& out) override {
    // The tensors of a collect are the policy's, as its settings are.
    if (settings_.has_value()) return Forward(obs, env_ids, settings, out);
    return policy_->ForwardWith(obs, env_ids, settings, tensors, out);
  }
  absl::Status Reset(absl::Span<const int> env_ids) override { return policy_->Reset(env_ids); }
  absl::Status LoadModel(StateReader* reader) override { return policy_->LoadModel(reader); }
  absl::Status SaveState(StateWriter* writer) const override { return policy_->SaveState(writer); }
  absl::Status LoadState(StateReader* reader) override { return policy_->LoadState(reader); }

 private:
  CollectMode* policy_;
  std::optional<NamedValues> settings_;
};

struct SelfPlayCollector::Side {
  std::unique_ptr<Seat> seat;
  bool learns = true;
  std::optional<TurnTransitions> moves;  // set once the collector is made
};

absl::StatusOr<std::unique_ptr<SelfPlayCollector>> SelfPlayCollector::Create(
    const MakeBattleCollector& make, EnvManager* env, CollectMode* policy, absl::string_view name,
    std::optional<Opponent> opponent) {
  if (env == nullptr || policy == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", env == nullptr ? "no env manager" : "no policy"));
  }
  const EnvSpec& game = env->env_spec();
  if (game.players < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": env '", game.name, "' has 1 player, expected a game of at least 2 ",
                     opponent.has_value() ? "to play an opponent" : "for self-play"));
  }
  auto collector = absl::WrapUnique(new SelfPlayCollector(name, env));
  collector->sides_.push_back({std::make_unique<Seat>(policy), /*learns=*/true, std::nullopt});
  if (opponent.has_value()) {
    collector->sides_.push_back(
        {std::make_unique<Seat>(opponent->policy), opponent->learns, std::nullopt});
    collector->set_opponent_settings({});
  }
  for (Side& side : collector->sides_) {
    absl::StatusOr<TurnTransitions> moves = collector->MovesOf(game, side);
    if (!moves.ok()) return Annotate(moves.status(), name);
    side.moves = *std::move(moves);
  }
  DING_ASSIGN_OR_RETURN(collector->games_, make(env, collector->SeatsOf(game)));
  return collector;
}

SelfPlayCollector::SelfPlayCollector(absl::string_view name, EnvManager* env)
    : name_(name), env_(env) {}

SelfPlayCollector::~SelfPlayCollector() = default;

bool SelfPlayCollector::has_opponent() const { return sides_.size() > 1; }

absl::StatusOr<TurnTransitions> SelfPlayCollector::MovesOf(const EnvSpec& game,
                                                           const Side& side) const {
  const int first = &side == &sides_[0] ? 0 : 1;
  if (first == 1 || !has_opponent()) DING_RETURN_IF_ERROR(CheckSamePlayers(game, first));
  return TurnTransitions::Create(PlayerSpec(game, first), side.seat->output_spec());
}

SelfPlayCollector::Seats SelfPlayCollector::SeatsOf(const EnvSpec& game) const {
  Seats seats(static_cast<size_t>(game.players), sides_.back().seat.get());
  seats[0] = sides_[0].seat.get();
  return seats;
}

absl::Status SelfPlayCollector::Use(EnvManager* env, CollectMode* policy,
                                    absl::FunctionRef<absl::Status(const Seats& seats)> reset) {
  EnvManager* const next_env = env == nullptr ? env_ : env;
  Seat& seat = *sides_[0].seat;
  CollectMode* const before = seat.policy();
  if (policy != nullptr) seat.set_policy(policy);
  const auto change = [&]() -> absl::Status {
    std::vector<TurnTransitions> next;
    for (const Side& side : sides_) {
      DING_ASSIGN_OR_RETURN(TurnTransitions moves, MovesOf(next_env->env_spec(), side));
      next.push_back(std::move(moves));
    }
    DING_RETURN_IF_ERROR(reset(SeatsOf(next_env->env_spec())));
    for (size_t i = 0; i < sides_.size(); ++i) {
      next[i].ContinueAfter(*sides_[i].moves);
      sides_[i].moves = std::move(next[i]);
    }
    env_ = next_env;
    return absl::OkStatus();
  };
  const absl::Status status = change();
  if (!status.ok()) seat.set_policy(before);
  return status;
}

void SelfPlayCollector::set_opponent_settings(NamedValues settings) {
  if (has_opponent()) sides_[1].seat->set_settings(std::move(settings));
}

absl::Status SelfPlayCollector::ResetEnv(EnvManager* env) {
  return Use(env, nullptr, [&](const Seats& /*seats*/) { return games_->ResetEnv(env); });
}

absl::Status SelfPlayCollector::ResetPolicy(CollectMode* policy) {
  if (policy != nullptr) {
    return Use(nullptr, policy, [&](const Seats& seats) { return games_->ResetPolicies(seats); });
  }
  DING_RETURN_IF_ERROR(games_->ResetPolicies({}));
  for (Side& side : sides_) side.moves->DropHeld();
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
  for (Side& side : sides_) {
    if (side.seat->attributes().on_policy) side.moves->DropHeld();
  }
  SegmentBatch data;
  for (int i = 0; data.size() == 0; ++i) {
    if (i == kMaxEmptyCollects) {
      return absl::FailedPreconditionError(
          absl::StrCat(name_, ": in ", i,
                       " collects, no player had a choice (an action mask with two legal "
                       "actions) whose outcome was seen, expected one at least"));
    }
    DING_ASSIGN_OR_RETURN(const BattleData collected, games_->Collect(options));
    const absl::Span<const SegmentBatch> players = collected.players;
    const size_t own = has_opponent() ? 1 : players.size();
    DING_ASSIGN_OR_RETURN(data, TakeMoves(players.first(own), &sides_[0]));
    if (!has_opponent() || !sides_[1].learns) continue;
    DING_ASSIGN_OR_RETURN(SegmentBatch others, TakeMoves(players.subspan(own), &sides_[1]));
    if (others.size() == 0) continue;
    DING_RETURN_IF_ERROR(MakeTrainSamples(&sides_[1], &others));
    opponent_data_.push_back(std::move(others));
  }
  DING_RETURN_IF_ERROR(MakeTrainSamples(&sides_[0], &data));
  return data;
}

absl::StatusOr<SegmentBatch> SelfPlayCollector::TakeMoves(absl::Span<const SegmentBatch> players,
                                                          Side* side) {
  absl::StatusOr<SegmentBatch> moves = side->moves->Take(players);
  if (!moves.ok()) return Annotate(moves.status(), name_);
  return moves;
}

absl::Status SelfPlayCollector::MakeTrainSamples(Side* side, SegmentBatch* data) {
  return Annotate(CallPolicy([&]() -> absl::Status {
                    DING_ASSIGN_OR_RETURN(*data,
                                          side->seat->policy()->GetTrainSample(std::move(*data)));
                    return absl::OkStatus();
                  }),
                  name_);
}

absl::Status SelfPlayCollector::SaveState(StateWriter* writer) const {
  DING_RETURN_IF_ERROR(games_->SaveState(writer));
  for (size_t i = 0; i < sides_.size(); ++i) {
    ScopedStateWriter scoped(writer, kMovesScopes[i]);
    DING_RETURN_IF_ERROR(sides_[i].moves->SaveState(&scoped));
  }
  return absl::OkStatus();
}

absl::Status SelfPlayCollector::LoadState(StateReader* reader) {
  std::vector<TurnTransitions> loaded;
  for (size_t i = 0; i < sides_.size(); ++i) {
    DING_ASSIGN_OR_RETURN(TurnTransitions moves, MovesOf(env_->env_spec(), sides_[i]));
    ScopedStateReader scoped(reader, kMovesScopes[i]);
    DING_RETURN_IF_ERROR(moves.LoadState(&scoped));
    loaded.push_back(std::move(moves));
  }
  DING_RETURN_IF_ERROR(games_->LoadState(reader));
  for (size_t i = 0; i < sides_.size(); ++i) sides_[i].moves = std::move(loaded[i]);
  return absl::OkStatus();
}

}  // namespace ding
