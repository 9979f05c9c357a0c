// The operations on a parallel run while no process of it works.
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/store.h"
#include "ding_worker/interaction/store/store_registry.h"
#include "ding_worker/worker/parallel_run/parallel_run.h"
#include "ding_worker/worker/parallel_run/parallel_run_folder.h"
#include "ding_worker/worker/run/run_memory.h"

namespace ding {

absl::Status AdoptRun(const std::string& store_url, const std::string& exp_dir) {
  if (PathExists(JoinPath(exp_dir, run_files::kInfo))) return absl::OkStatus();
  if (PathExists(exp_dir)) {
    return absl::AlreadyExistsError(
        absl::StrCat("'", exp_dir,
                     "' exists and is not the folder of a run: expected "
                     "a new folder for the run of ",
                     store_url));
  }
  DING_ASSIGN_OR_RETURN(StoredDescription description, GetDescription(store_url));
  description.info.set_store_url(store_url);  // the address as this machine reaches it
  DING_RETURN_IF_ERROR(CreateDirectories(JoinPath(exp_dir, run_files::kCoordinatorFolder)));
  DING_RETURN_IF_ERROR(
      WriteFileAtomically(JoinPath(exp_dir, run_files::kConfig), description.config));
  return WriteFileAtomically(JoinPath(exp_dir, run_files::kInfo), PrintRunFile(description.info));
}

absl::StatusOr<std::string> SettleDeadRun(const std::string& exp_dir) {
  if (!PathExists(JoinPath(exp_dir, run_files::kInfo))) return "";  // The run had not begun.
  DING_ASSIGN_OR_RETURN(const ParallelRunInfo info, ReadRunInfo(exp_dir));
  const bool in_memory = !info.memory().empty();
  if (in_memory && (!PathExists(info.memory()) || IsKeptRunMemory(info.memory()))) return "";
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, create_store(info.store_url()));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, store->List(""));
  if (keys.empty()) {
    DING_RETURN_IF_ERROR(in_memory ? RemoveRunMemory(info.memory()) : store->Clear());
    return "";
  }
  if (in_memory) DING_RETURN_IF_ERROR(KeepRunMemory(info.memory()));
  return absl::StrCat("the data of this run stay in ", DescribePlace(info),
                      "; continue with them by: ", ResumeCommand(exp_dir));
}

}  // namespace ding
