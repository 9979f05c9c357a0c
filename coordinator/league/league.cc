#include "ding_worker/coordinator/league/league.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "ding_worker/base/parse_proto.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/coordinator/league/league.pb.h"

namespace ding {
namespace {

constexpr char kStateName[] = "league";
constexpr char kRngName[] = "league_rng";

bool IsName(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_';
  });
}

void ToState(const Rating& rating, RatingState* state) {
  state->set_mu(rating.mu);
  state->set_sigma(rating.sigma);
}

absl::StatusOr<Rating> FromState(const RatingState& state, const std::string& id) {
  if (std::isfinite(state.mu()) && std::isfinite(state.sigma()) && state.sigma() > 0) {
    return Rating{state.mu(), state.sigma()};
  }
  return absl::DataLossError(absl::StrCat("saved rating of ", id, " is ", state.mu(), " +- ",
                                          state.sigma(), ", expected numbers, the second above 0"));
}

absl::StatusOr<std::vector<HistoricalPlayer>> FromState(
    const google::protobuf::RepeatedPtrField<HistoricalPlayerState>& saved) {
  std::vector<HistoricalPlayer> players;
  std::set<std::string> ids;
  for (const HistoricalPlayerState& player : saved) {
    if (player.id().empty() || !ids.insert(player.id()).second || player.policy().key().empty()) {
      return absl::DataLossError(absl::StrCat("saved historical player '", player.id(),
                                              "' has no name, or that of another, or no policy"));
    }
    DING_ASSIGN_OR_RETURN(const Rating rating, FromState(player.rating(), player.id()));
    players.push_back(
        {player.id(), player.parent_id(), player.train_step(), player.policy(), rating});
  }
  return players;
}

absl::StatusOr<BattleSharedPayoff::Records> FromState(
    const google::protobuf::RepeatedPtrField<PayoffRecordState>& saved) {
  BattleSharedPayoff::Records records;
  for (const PayoffRecordState& record : saved) {
    const BattleRecord counts = {record.wins(), record.draws(), record.losses()};
    if (!(counts.wins >= 0 && counts.draws >= 0 && counts.losses >= 0 &&
          std::isfinite(counts.games())) ||
        record.home() > record.away()) {
      return absl::DataLossError(absl::StrCat(
          "saved games of ", record.home(), " and ", record.away(), " are ", counts.wins, ", ",
          counts.draws, ", ", counts.losses, ", expected counts of two in the order of names"));
    }
    records[{record.home(), record.away()}] = counts;
  }
  return records;
}

}  // namespace

std::vector<std::string> OneVsOneLeague::Problems(const Options& options) {
  std::vector<std::string> problems;
  const auto append = [&problems](std::vector<std::string> more) {
    std::move(more.begin(), more.end(), std::back_inserter(problems));
  };
  const size_t players =
      options.player_category.size() * static_cast<size_t>(std::max(0, options.naive_sp_players));
  if (options.player_category.empty() || options.naive_sp_players < 1) {
    problems.push_back(absl::StrCat("a league without players: ", options.player_category.size(),
                                    " categories with ", options.naive_sp_players,
                                    " active players each, expected one player"));
  } else if (players > 1) {
    problems.push_back(absl::StrCat(players,
                                    " active players, expected 1: a run trains one policy, the "
                                    "others would never learn"));
  }
  for (const std::string& category : options.player_category) {
    if (IsName(category)) continue;
    problems.push_back(
        absl::StrCat("player_category '", category, "', expected letters, digits and '_'"));
  }
  if (options.max_historical_players < 1) {
    problems.push_back(absl::StrCat("max_historical_players is ", options.max_historical_players,
                                    ", expected at least 1"));
  }
  append(NaiveSpPlayer::Problems(options.naive_sp_player));
  append(BattleSharedPayoff::Problems(options.payoff));
  append(LeagueMetric::Problems(options.metric));
  return problems;
}

absl::StatusOr<OneVsOneLeague> OneVsOneLeague::Create(const Options& options) {
  const std::vector<std::string> problems = Problems(options);
  if (!problems.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("league: ", absl::StrJoin(problems, "; ")));
  }
  return OneVsOneLeague(options,
                        absl::StrCat("naive_sp_player_", options.player_category.front(), "_0"));
}

OneVsOneLeague::OneVsOneLeague(const Options& options, std::string active_id)
    : max_historical_players_(options.max_historical_players),
      payoff_(options.payoff),
      metric_(options.metric),
      active_(options.naive_sp_player, std::move(active_id), metric_.NewRating()),
      rng_(options.seed, "league") {}

std::vector<double> OneVsOneLeague::WinRates() const {
  std::vector<double> rates;
  for (const HistoricalPlayer& player : historical_) {
    rates.push_back(payoff_.WinRate(active_.id(), player.id));
  }
  return rates;
}

OneVsOneLeague::Job OneVsOneLeague::GetJob() {
  Job job;
  job.home_id = active_.id();
  const std::optional<size_t> opponent = active_.ChooseOpponent(WinRates(), &rng_);
  job.away_id = opponent.has_value() ? historical_[*opponent].id : active_.id();
  if (opponent.has_value()) job.away_policy = historical_[*opponent].policy;
  return job;
}

Rating* OneVsOneLeague::FindRating(const std::string& id) {
  if (id == active_.id()) return &active_.rating;
  const auto found =
      std::find_if(historical_.begin(), historical_.end(),
                   [&id](const HistoricalPlayer& player) { return player.id == id; });
  return found == historical_.end() ? nullptr : &found->rating;
}

void OneVsOneLeague::FinishJob(const std::string& home_id, const std::string& away_id,
                               absl::Span<const GameResult> results) {
  Rating* const home = FindRating(home_id);
  Rating* const away = FindRating(away_id);
  // One of the two players has left the league meanwhile.
  if (home == nullptr || away == nullptr) return;
  payoff_.Update(home_id, away_id, results);
  if (home == away) return;
  for (const GameResult result : results) metric_.Rate(result, home, away);
}

bool OneVsOneLeague::NoteTrainStep(int64_t train_step) {
  active_.set_train_step(train_step);
  if (active_.policy.key().empty() || Keeps(active_.policy)) return false;
  if (!active_.IsTrainedEnough(WinRates())) return false;
  Snapshot();
  return true;
}

void OneVsOneLeague::Snapshot() {
  active_.NoteSnapshot();
  HistoricalPlayer player;
  player.id = absl::StrCat(active_.id(), "_", active_.train_step(), "_historical");
  // The name may be taken: a learner that began anew reaches the same steps again.
  for (int i = 2; FindRating(player.id) != nullptr; ++i) {
    player.id = absl::StrCat(active_.id(), "_", active_.train_step(), "_", i, "_historical");
  }
  player.parent_id = active_.id();
  player.train_step = active_.train_step();
  player.policy = active_.policy;
  player.rating = active_.rating;
  historical_.push_back(std::move(player));
  if (static_cast<int>(historical_.size()) > max_historical_players_) DropWeakest();
}

void OneVsOneLeague::DropWeakest() {
  std::vector<double> rates = WinRates();
  rates.pop_back();  // The newest one has played no game.
  const auto weakest =
      historical_.begin() + (std::max_element(rates.begin(), rates.end()) - rates.begin());
  payoff_.Forget(weakest->id);
  historical_.erase(weakest);
}

bool OneVsOneLeague::Keeps(const PolicyVersion& version) const {
  return std::any_of(historical_.begin(), historical_.end(), [&](const HistoricalPlayer& player) {
    return player.policy.key() == version.key();
  });
}

absl::Status OneVsOneLeague::SaveState(StateWriter* writer) const {
  LeagueState state;
  ActivePlayerState* const active = state.add_active();
  active->set_id(active_.id());
  active->set_train_step(active_.train_step());
  active->set_snapshot_step(active_.snapshot_step());
  *active->mutable_policy() = active_.policy;
  ToState(active_.rating, active->mutable_rating());
  for (const HistoricalPlayer& player : historical_) {
    HistoricalPlayerState* const saved = state.add_historical();
    saved->set_id(player.id);
    saved->set_parent_id(player.parent_id);
    saved->set_train_step(player.train_step);
    *saved->mutable_policy() = player.policy;
    ToState(player.rating, saved->mutable_rating());
  }
  for (const auto& [pair, record] : payoff_.records()) {
    PayoffRecordState* const saved = state.add_payoff();
    saved->set_home(pair.first);
    saved->set_away(pair.second);
    saved->set_wins(record.wins);
    saved->set_draws(record.draws);
    saved->set_losses(record.losses);
  }
  DING_RETURN_IF_ERROR(writer->WriteString(kStateName, state.SerializeAsString()));
  return writer->WriteRng(kRngName, rng_);
}

absl::Status OneVsOneLeague::LoadState(StateReader* reader) {
  DING_ASSIGN_OR_RETURN(const std::string bytes, reader->ReadString(kStateName));
  LeagueState state;
  const absl::Status parsed = ParseProto(bytes, &state);
  if (!parsed.ok()) {
    return absl::DataLossError(
        absl::StrCat("saved '", kStateName, "' is not a league: ", parsed.message()));
  }
  if (state.active_size() != 1 || state.active(0).id() != active_.id()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "saved league has ", state.active_size(), " active players",
        state.active_size() == 0 ? "" : absl::StrCat(", the first '", state.active(0).id(), "'"),
        ", expected '", active_.id(), "'"));
  }
  const ActivePlayerState& active = state.active(0);
  if (active.train_step() < active.snapshot_step() || active.snapshot_step() < 0 ||
      active.train_step() > kMaxSavedCount) {
    return absl::DataLossError(absl::StrCat("saved league: a snapshot at step ",
                                            active.snapshot_step(), " of ", active.train_step()));
  }
  DING_ASSIGN_OR_RETURN(const Rating rating, FromState(active.rating(), active.id()));
  DING_ASSIGN_OR_RETURN(std::vector<HistoricalPlayer> historical, FromState(state.historical()));
  DING_ASSIGN_OR_RETURN(BattleSharedPayoff::Records records, FromState(state.payoff()));
  DING_RETURN_IF_ERROR(reader->ReadRng(kRngName, &rng_));
  active_.Restore(active.train_step(), active.snapshot_step());
  active_.policy = active.policy();
  active_.rating = rating;
  historical_ = std::move(historical);
  payoff_.set_records(std::move(records));
  return absl::OkStatus();
}

}  // namespace ding
