#include "ding_worker/coordinator/league/league.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/params.h"
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

absl::Status CheckRating(const Rating& rating, const std::string& id) {
  if (std::isfinite(rating.mu()) && std::isfinite(rating.sigma()) && rating.sigma() > 0) {
    return absl::OkStatus();
  }
  return absl::DataLossError(absl::StrCat("saved rating of ", id, " is ", rating.mu(), " +- ",
                                          rating.sigma(),
                                          ", expected numbers, the second above 0"));
}

absl::Status CheckHistorical(const OneVsOneLeague::HistoricalPlayers& saved) {
  std::set<std::string> ids;
  for (const HistoricalPlayer& player : saved) {
    if (player.id().empty() || !ids.insert(player.id()).second || player.policy().key().empty()) {
      return absl::DataLossError(absl::StrCat("saved historical player '", player.id(),
                                              "' has no name, or that of another, or no policy"));
    }
    DING_RETURN_IF_ERROR(CheckRating(player.rating(), player.id()));
  }
  return absl::OkStatus();
}

absl::StatusOr<BattleSharedPayoff::Records> ReadRecords(const LeagueState& saved) {
  BattleSharedPayoff::Records records;
  for (const BattleRecord& record : saved.payoff()) {
    if (!(record.wins() >= 0 && record.draws() >= 0 && record.losses() >= 0 &&
          std::isfinite(GamesOf(record))) ||
        record.home() > record.away()) {
      return absl::DataLossError(absl::StrCat(
          "saved games of ", record.home(), " and ", record.away(), " are ", record.wins(), ", ",
          record.draws(), ", ", record.losses(), ", expected counts of two in the order of names"));
    }
    records[{record.home(), record.away()}] = record;
  }
  return records;
}

// How far the sum of probabilities may be from 1.
constexpr double kTolerance = 1e-6;

}  // namespace

std::vector<std::string> OneVsOneLeague::Problems(const LeagueConfig& config) {
  std::vector<std::string> problems;
  CheckRanges(config, "", &problems);
  const int64_t categories = std::max(1, config.player_category_size());
  const int64_t players = categories * config.active_players().naive_sp_player();
  if (players == 0) {
    problems.push_back(absl::StrCat("a league without players: ", categories, " categories with ",
                                    config.active_players().naive_sp_player(),
                                    " active players each, expected one player"));
  } else if (players > 1) {
    problems.push_back(absl::StrCat(players,
                                    " active players, expected 1: a run trains one policy, the "
                                    "others would never learn"));
  }
  for (const std::string& category : config.player_category()) {
    if (IsName(category)) continue;
    problems.push_back(
        absl::StrCat("player_category '", category, "', expected letters, digits and '_'"));
  }
  const double pfsp = config.naive_sp_player().branch_probs().pfsp();
  const double sp = config.naive_sp_player().branch_probs().sp();
  if (!(pfsp >= 0 && sp >= 0 && std::abs(pfsp + sp - 1) <= kTolerance)) {
    problems.push_back(absl::StrCat("naive_sp_player.branch_probs are pfsp ", pfsp, " and sp ", sp,
                                    ", expected probabilities that add up to 1"));
  }
  if (config.payoff().type() != "battle") {
    problems.push_back(
        absl::StrCat("league.payoff.type is '", config.payoff().type(), "', expected 'battle'"));
  }
  return problems;
}

absl::StatusOr<OneVsOneLeague> OneVsOneLeague::Create(const LeagueConfig& config, uint64_t seed) {
  DING_RETURN_IF_ERROR(ProblemsToStatus(Problems(config), "league"));
  return OneVsOneLeague(config, seed);
}

OneVsOneLeague::OneVsOneLeague(const LeagueConfig& config, uint64_t seed)
    : max_historical_players_(config.max_historical_players()),
      payoff_(config.payoff()),
      metric_(config.metric()),
      active_(config.naive_sp_player(), ActivePlayer()),
      rng_(seed, "league") {
  const bool has_category = config.player_category_size() > 0;
  active_.mutable_state()->set_id(
      absl::StrCat("naive_sp_player_", has_category ? config.player_category(0) : "default", "_0"));
  *active_.mutable_state()->mutable_rating() = metric_.NewRating();
}

std::vector<double> OneVsOneLeague::WinRates() const {
  std::vector<double> rates;
  for (const HistoricalPlayer& player : historical_) {
    rates.push_back(payoff_.WinRate(active().id(), player.id()));
  }
  return rates;
}

OneVsOneLeague::Job OneVsOneLeague::GetJob() {
  Job job;
  job.home_id = active().id();
  const std::optional<size_t> opponent = active_.ChooseOpponent(WinRates(), &rng_);
  job.away_id = active().id();
  if (opponent.has_value()) {
    const HistoricalPlayer& player = historical_[static_cast<int>(*opponent)];
    job.away_id = player.id();
    job.away_policy = player.policy();
  }
  return job;
}

Rating* OneVsOneLeague::FindRating(const std::string& id) {
  if (id == active().id()) return active_.mutable_state()->mutable_rating();
  for (HistoricalPlayer& player : historical_) {
    if (player.id() == id) return player.mutable_rating();
  }
  return nullptr;
}

void OneVsOneLeague::FinishJob(const std::string& home_id, const std::string& away_id,
                               absl::Span<const TaskGameResult> results) {
  Rating* const home = FindRating(home_id);
  Rating* const away = FindRating(away_id);
  // One of the two players has left the league meanwhile.
  if (home == nullptr || away == nullptr) return;
  payoff_.Update(home_id, away_id, results);
  if (home == away) return;
  for (const TaskGameResult result : results) metric_.Rate(result, home, away);
}

bool OneVsOneLeague::NoteTrainStep(int64_t train_step) {
  active_.set_train_step(train_step);
  if (active().policy().key().empty() || Keeps(active().policy())) return false;
  if (!active_.IsTrainedEnough(WinRates())) return false;
  Snapshot();
  return true;
}

void OneVsOneLeague::Snapshot() {
  active_.NoteSnapshot();
  const int64_t step = active().train_step();
  HistoricalPlayer player;
  player.set_id(absl::StrCat(active().id(), "_", step, "_historical"));
  // The name may be taken: a learner that began anew reaches the same steps again.
  for (int i = 2; FindRating(player.id()) != nullptr; ++i) {
    player.set_id(absl::StrCat(active().id(), "_", step, "_", i, "_historical"));
  }
  player.set_parent_id(active().id());
  player.set_train_step(step);
  *player.mutable_policy() = active().policy();
  *player.mutable_rating() = active().rating();
  *historical_.Add() = std::move(player);
  if (historical_.size() > max_historical_players_) DropWeakest();
}

void OneVsOneLeague::DropWeakest() {
  std::vector<double> rates = WinRates();
  rates.pop_back();  // The newest one has played no game.
  const auto weakest =
      historical_.begin() + (std::max_element(rates.begin(), rates.end()) - rates.begin());
  payoff_.Forget(weakest->id());
  historical_.erase(weakest);
}

bool OneVsOneLeague::Keeps(const PolicyVersion& version) const {
  return std::any_of(historical_.begin(), historical_.end(), [&](const HistoricalPlayer& player) {
    return player.policy().key() == version.key();
  });
}

absl::Status OneVsOneLeague::SaveState(StateWriter* writer) const {
  LeagueState state;
  *state.add_active() = active();
  *state.mutable_historical() = historical_;
  for (const auto& [pair, record] : payoff_.records()) *state.add_payoff() = record;
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
  if (state.active_size() != 1 || state.active(0).id() != active().id()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "saved league has ", state.active_size(), " active players",
        state.active_size() == 0 ? "" : absl::StrCat(", the first '", state.active(0).id(), "'"),
        ", expected '", active().id(), "'"));
  }
  const ActivePlayer& saved = state.active(0);
  if (saved.train_step() < saved.snapshot_step() || saved.snapshot_step() < 0 ||
      saved.train_step() > kMaxSavedCount) {
    return absl::DataLossError(absl::StrCat("saved league: a snapshot at step ",
                                            saved.snapshot_step(), " of ", saved.train_step()));
  }
  DING_RETURN_IF_ERROR(CheckRating(saved.rating(), saved.id()));
  DING_RETURN_IF_ERROR(CheckHistorical(state.historical()));
  DING_ASSIGN_OR_RETURN(BattleSharedPayoff::Records records, ReadRecords(state));
  DING_RETURN_IF_ERROR(reader->ReadRng(kRngName, &rng_));
  *active_.mutable_state() = saved;
  historical_ = state.historical();
  payoff_.set_records(std::move(records));
  return absl::OkStatus();
}

std::vector<double> Pfsp(absl::Span<const double> win_rates) {
  std::vector<double> probabilities;
  for (const double rate : win_rates) probabilities.push_back((1 - rate) * (1 - rate));
  const double sum = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) {
    probability = sum > 0 ? probability / sum : 1.0 / static_cast<double>(win_rates.size());
  }
  return probabilities;
}

std::optional<size_t> NaiveSpPlayer::ChooseOpponent(absl::Span<const double> win_rates,
                                                    Rng* rng) const {
  if (rng->Uniform() >= config_.branch_probs().pfsp() || win_rates.empty()) return std::nullopt;
  const std::vector<double> probabilities = Pfsp(win_rates);
  double left = rng->Uniform();
  size_t chosen = 0;
  // If rounding leaves a remainder, the last opponent with a probability above 0 is chosen.
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] == 0) continue;
    chosen = i;
    left -= probabilities[i];
    if (left < 0) break;
  }
  return chosen;
}

void NaiveSpPlayer::set_train_step(int64_t train_step) {
  state_.set_train_step(std::max<int64_t>(0, train_step));
  state_.set_snapshot_step(std::min(state_.snapshot_step(), state_.train_step()));
}

bool NaiveSpPlayer::IsTrainedEnough(absl::Span<const double> win_rates) const {
  const int64_t phases = (state_.train_step() - state_.snapshot_step()) / config_.one_phase_step();
  if (phases != 1) return phases >= 2;
  return !win_rates.empty() &&
         *std::min_element(win_rates.begin(), win_rates.end()) > config_.strong_win_rate();
}

}  // namespace ding
