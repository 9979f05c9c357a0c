#include "ding_worker/collector/evaluator/vector_eval_monitor.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/check.h"

namespace ding {
namespace {

constexpr int kMaxEnvs = 1 << 20;

}  // namespace

absl::StatusOr<VectorEvalMonitor> VectorEvalMonitor::Create(int env_num, int64_t n_episode) {
  if (env_num > kMaxEnvs) {
    return absl::InvalidArgumentError(
        absl::StrCat("an evaluation in ", env_num, " envs, expected at most ", kMaxEnvs));
  }
  if (env_num < 1 || n_episode < env_num) {
    return absl::InvalidArgumentError(absl::StrCat("n_episode is ", n_episode, " for ", env_num,
                                                   " envs, expected at least one episode per env, "
                                                   "and an env"));
  }
  return VectorEvalMonitor(env_num, n_episode);
}

VectorEvalMonitor::VectorEvalMonitor(int env_num, int64_t n_episode)
    : n_episode_(n_episode), envs_(static_cast<size_t>(env_num)) {
  for (int id = 0; id < env_num; ++id) {
    envs_[id].quota = n_episode / env_num + (id < n_episode % env_num ? 1 : 0);
  }
}

absl::Status VectorEvalMonitor::Update(int env_id, double episode_return, const NamedValues& info,
                                       std::vector<double> other_returns) {
  if (env_id < 0 || env_id >= static_cast<int>(envs_.size())) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no env ", env_id, ", only 0..", envs_.size() - 1));
  }
  if (is_full(env_id)) {
    return absl::FailedPreconditionError(absl::StrCat("env ", env_id, " has played all of its ",
                                                      quota(env_id), " episodes already"));
  }
  envs_[env_id].returns.push_back(episode_return);
  envs_[env_id].other_returns.push_back(std::move(other_returns));
  envs_[env_id].infos.push_back(info);
  ++current_episode_;
  return absl::OkStatus();
}

std::vector<double> VectorEvalMonitor::GetEpisodeReturn(int player) const {
  std::vector<double> returns;
  for (const EnvResults& env : envs_) {
    for (size_t i = 0; i < env.returns.size(); ++i) {
      DING_CHECK(player >= 0 && player <= static_cast<int>(env.other_returns[i].size()))
          << "there is no player " << player;
      returns.push_back(player == 0 ? env.returns[i] : env.other_returns[i][player - 1]);
    }
  }
  return returns;
}

std::map<std::string, std::vector<double>> VectorEvalMonitor::GetEpisodeInfo() const {
  std::map<std::string, std::vector<double>> merged;
  for (const EnvResults& env : envs_) {
    for (const NamedValues& info : env.infos) {
      for (const auto& [name, value] : info) merged[name].push_back(value);
    }
  }
  return merged;
}

}  // namespace ding
