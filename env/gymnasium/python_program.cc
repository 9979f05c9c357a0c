#include "ding_worker/env/gymnasium/python_program.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "ding_worker/base/mutex.h"
#include "ding_worker/base/params.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/columns.h"
#include "ding_worker/env/env_host.h"
#include "ding_worker/env/process/env_process.h"
#include "ding_worker/env/process/env_process_pool.h"
#include "ding_worker/env/process/process_message.h"
#include "ding_worker/env/wrappers/wrappers.pb.h"
#include "nlohmann/json.hpp"

namespace ding {
namespace {

using Json = nlohmann::json;

constexpr char kQuote[] = "R\"PY(";  // what makes the file a string of C++
constexpr char kScript[] =
#include "env_process.py"  // NOLINT: it is a string, and lies beside this file
    ;

// The exit code of a process that could not become the interpreter.
constexpr int kNoInterpreter = 127;

// Returns a file in memory that a program which this process becomes can read; -1 if there is no
// memory.
int MemoryFile(const char* name, absl::string_view first, absl::string_view second) {
  const int file = memfd_create(name, 0);
  if (file < 0) return -1;
  for (absl::string_view text : {first, second}) {
    while (!text.empty()) {
      const ssize_t written = write(file, text.data(), text.size());
      if (written < 0) return -1;
      text.remove_prefix(static_cast<size_t>(written));
    }
  }
  return file;
}

std::string Dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Json ConfigJson(const GymnasiumConfig& config, PythonInterface interface, const EnvConfig& around) {
  Json json = {{"id", config.id()},
               {"entry_point", config.entry_point()},
               {"kwargs", config.kwargs()},
               {"seed_bits", config.seed_bits()},
               {"info", config.info()},
               {"pictures", around.use().pictures()},
               {"game", interface == PythonInterface::kPettingZoo}};
  json["python_path"] = Json::array();
  for (const std::string& folder : config.python_path()) json["python_path"].push_back(folder);
  // A field whose space is unknown may be there if a wrapper leaves it out.
  json["left_out"] = json["kept"] = Json::array();
  for (const EnvWrapperConfig& wrapper : around.wrapper()) {
    MaskFieldsConfig fields;
    if (wrapper.type() != "mask_fields" || !wrapper.params().UnpackTo(&fields)) continue;
    for (const std::string& name : fields.remove()) json["left_out"].push_back(name);
    for (const std::string& name : fields.keep()) json["kept"].push_back(name);
  }
  return json;
}

// Where the members of a struct of the memory are: numbers of bytes from its beginning.
Json Layout(const ProcessMemory& memory, ProcessMemory::Manager* manager) {
  const auto at = [&memory](const void* part) { return memory.OffsetOf(part); };
  return {{"sleeping", at(&manager->sleeping)}, {"event", at(&manager->event)}};
}

Json Layout(const ProcessMemory& memory, ProcessMemory::Process* process) {
  const auto at = [&memory](const void* part) { return memory.OffsetOf(part); };
  return {{"requests", at(&process->requests)}, {"sleeping", at(&process->sleeping)},
          {"leave", at(&process->leave)},       {"progress", at(&process->progress)},
          {"call", at(&process->call)},         {"env_id", at(&process->env_id)},
          {"attempts", at(&process->attempts)}};
}

// terminated, truncated and abnormal are written at once, as the bytes of one number.
static_assert(offsetof(ProcessMemory::Env, terminated) % 4 == 0);
static_assert(offsetof(ProcessMemory::Env, truncated) ==
              offsetof(ProcessMemory::Env, terminated) + 1);
static_assert(offsetof(ProcessMemory::Env, abnormal) ==
              offsetof(ProcessMemory::Env, terminated) + 2);

// The call of a process and its env are written at once, as one number.
static_assert(offsetof(ProcessMemory::Process, call) % 8 == 0);
static_assert(offsetof(ProcessMemory::Process, env_id) ==
              offsetof(ProcessMemory::Process, call) + 4);

Json Layout(ProcessMemory* memory, const EnvSpec& spec, int env_id) {
  ProcessMemory::Env* const env = &memory->env(env_id);
  const auto at = [memory](const void* part) { return memory->OffsetOf(part); };
  const auto row_of = [&](const MutableColumnsView& block) {
    Json row = Json::array();
    for (int i = 0; i < block.spec().size(); ++i) {
      row.push_back(at(block.raw_column(i) + env_id * block.spec().row_bytes(i)));
    }
    return row;
  };
  Json info = Json::array();
  for (int i = 0; spec.info != nullptr && i < spec.info->size(); ++i) {
    info.push_back(at(memory->info(env_id) + InfoRow::Offset(*spec.info, i)));
  }
  return {{"id", env_id},
          {"info", info},
          {"message", at(memory->message_area(env_id))},
          {"rows", row_of(memory->rows())},
          {"next_rows", row_of(memory->next_rows())},
          {"actions", row_of(memory->actions())},
          {"at",
           {{"turn", at(&env->turn)},
            {"call", at(&env->call)},
            {"attempts_made", at(&env->attempts_made)},
            {"seed", at(&env->seed)},
            {"next", at(&env->next)},
            {"next_seed", at(&env->next_seed)},
            {"reward", at(&env->reward)},
            {"other_rewards", at(reinterpret_cast<std::byte*>(memory->other_rewards(env_id)))},
            {"player_ends", at(memory->player_ends(env_id))},
            {"ends", at(&env->terminated)},
            {"message_size", at(&env->message_size)}}}};
}

// What the script must know.
Json MakePlan(const PythonEnv& env, ProcessMemory* memory, int process,
              const std::vector<int>& env_ids) {
  Json plan = {{"memory", memory->fd()},
               {"bytes", memory->bytes()},
               {"message_bytes", ProcessMemory::kMessageBytes},
               {"index", process},
               {"manager", Layout(*memory, &memory->manager())},
               {"process", Layout(*memory, &memory->process(process))},
               {"params", ConfigJson(env.config, env.interface, env.around)},
               {"role", env.around.use().role()},
               {"first_number", env.around.use().number()},
               {"probe", false},
               {"layout", ""},
               {"has_mask", false},
               {"max_retry", 1},
               {"retry_waiting_time", 0},
               {"renew", false},
               {"memory_limit_mb", 0},
               {"notify_each", false}};
  plan["envs"] = Json::array();
  for (const int env_id : env_ids) plan["envs"].push_back(Layout(memory, env.spec, env_id));
  return plan;
}

// The envs that were probed in this process, by their configs.
class KnownPythonEnvs {
 public:
  std::optional<PythonEnv> Find(const std::string& key) const {
    const MutexLock lock(&mutex_);
    const auto found = envs_.find(key);
    return found == envs_.end() ? std::nullopt : std::optional<PythonEnv>(found->second);
  }
  void Add(const std::string& key, const PythonEnv& env) {
    const MutexLock lock(&mutex_);
    envs_[key] = env;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, PythonEnv> envs_ ABSL_GUARDED_BY(mutex_);
};

KnownPythonEnvs& KnownEnvs() {
  static auto* const envs = new KnownPythonEnvs;
  return *envs;
}

// Becomes the interpreter. Returns an exit code if that fails, after it has said why.
int BecomePython(const GymnasiumConfig& config, const Json& plan, int memory) {
  const int script = MemoryFile("env_process.py", kQuote, kScript);
  const int plan_file = MemoryFile("plan", Dump(plan), "");
  if (script < 0 || plan_file < 0) {
    std::fprintf(stderr, "no memory for the script: %s\n", std::strerror(errno));
    return kNoInterpreter;
  }
  fcntl(memory, F_SETFD, 0);
  dup2(STDERR_FILENO, STDOUT_FILENO);  // What Python prints goes to the log.
  std::string script_path = absl::StrCat("/proc/self/fd/", script);
  std::string plan_argument = absl::StrCat(plan_file);
  std::string python = config.python();
  char unbuffered[] = "-u";
  char* const arguments[] = {python.data(), unbuffered, script_path.data(), plan_argument.data(),
                             nullptr};
  execvp(python.c_str(), arguments);
  std::fprintf(stderr, "there is no Python interpreter '%s' (params.python or --python): %s\n",
               python.c_str(), std::strerror(errno));
  return kNoInterpreter;
}

}  // namespace

absl::Status CheckGymnasiumConfig(const GymnasiumConfig& config, PythonInterface interface) {
  std::vector<std::string> problems;
  if (interface == PythonInterface::kPettingZoo) {
    if (!config.id().empty() || config.entry_point().empty()) {
      problems.push_back(absl::StrCat(
          "id is '", config.id(), "' and entry_point is '", config.entry_point(),
          "', expected only entry_point, 'module:Class': PettingZoo has no ids; a game of its own "
          "is 'pettingzoo.butterfly.pistonball_v6:parallel_env'"));
    }
  } else if (config.id().empty() == config.entry_point().empty()) {
    problems.push_back(absl::StrCat(
        "id is '", config.id(), "' and entry_point is '", config.entry_point(),
        "', expected one of both: an id for gymnasium.make(), or a class as 'module:Class'"));
  }
  if (config.python().empty()) problems.push_back("python is empty, expected an interpreter");
  CheckRanges(config, "", &problems);
  return ProblemsToStatus(problems, "env params");
}

absl::StatusOr<PythonEnv> ProbePythonEnv(const GymnasiumConfig& config, PythonInterface interface,
                                         const EnvConfig& around, absl::Duration timeout) {
  DING_RETURN_IF_ERROR(CheckGymnasiumConfig(config, interface));
  PythonEnv env;
  env.config = config;
  env.interface = interface;
  // All that the spec depends on.
  EnvConfig wrappers = around;
  wrappers.clear_use();
  const std::string key =
      absl::StrCat(config.python(), "\n", Dump(ConfigJson(config, interface, wrappers)));
  std::optional<PythonEnv> known = KnownEnvs().Find(key);
  if (known.has_value()) {
    known->around = around;
    return *std::move(known);
  }
  env.around = std::move(wrappers);
  env.around.mutable_use()->set_role("probe");
  env.around.mutable_use()->set_number(around.use().probe_number());
  const auto run = [&env](ProcessMemory* memory) {
    Json plan = MakePlan(env, memory, 0, {0});
    plan["probe"] = true;
    return BecomePython(env.config, plan, memory->fd());
  };
  absl::StatusOr<EnvSpec> spec = ProbeEnvSpec(run, timeout, &env.layout);
  if (!spec.ok()) return Annotate(spec.status(), "env 0");
  Json rest = Json::parse(env.layout);
  for (const Json& sample : rest["goal_rewards"]) {
    env.goal_rewards.push_back({sample[0], sample[1], sample[2]});
  }
  rest.erase("goal_rewards");
  env.layout = Dump(rest);
  DING_RETURN_IF_ERROR(ValidateEnvSpec(*spec));
  env.spec = *std::move(spec);
  KnownEnvs().Add(key, env);
  env.around = around;
  return env;
}

EnvProcessPool::Run RunPython(const PythonEnv& env, bool notify_each) {
  return [env, notify_each](const EnvProcessOptions& options) {
    Json plan = MakePlan(env, options.memory, options.process, options.env_ids);
    plan.update(Json::parse(env.layout));
    plan["max_retry"] = options.retry->max_retry;
    plan["retry_waiting_time"] = absl::ToDoubleSeconds(options.retry->retry_waiting_time);
    plan["renew"] = options.retry->retry_type == EnvRetryType::kRenew;
    plan["memory_limit_mb"] = options.memory_limit_mb;
    plan["notify_each"] = notify_each;
    return BecomePython(env.config, plan, options.memory->fd());
  };
}

}  // namespace ding
