#include "ding_worker/worker/parallel_run/saved_values.h"

#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "absl/strings/string_view.h"
#include "ding_worker/base/file.h"
#include "ding_worker/base/log.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/interaction/store/file_store.h"
#include "ding_worker/worker/parallel_run/parallel_run.pb.h"
#include "ding_worker/worker/parallel_run/parallel_run_folder.h"

namespace ding {

absl::Status SaveValues(const Journal& journal, int64_t max_bytes, Store* store,
                        const RunFolder& folder) {
  const std::string saved_path = JoinPath(folder.path(), run_files::kSavedFolder);
  DING_RETURN_IF_ERROR(RemoveRecursively(JoinPath(folder.path(), run_files::kSaved)));
  DING_RETURN_IF_ERROR(RemoveRecursively(saved_path));
  DING_RETURN_IF_ERROR(CreateDirectories(saved_path));
  // The store is opened by its path, since not every path can be part of a URL.
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<FileStore> saved, FileStore::Create(saved_path));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, journal.LiveKeys());
  SavedRun manifest;
  std::string value;
  for (const std::string& key : keys) {
    const absl::Status read = store->Get(key, &value);
    if (absl::IsNotFound(read)) continue;  // It was lost before.
    if (absl::IsDataLoss(read)) {
      DING_LOG(WARNING) << "a chunk is damaged and not saved: " << read.message();
      continue;
    }
    DING_RETURN_IF_ERROR(read);
    const auto bytes = static_cast<int64_t>(value.size());
    if (manifest.bytes() + bytes > max_bytes) {
      manifest.set_left_out(manifest.left_out() + 1);
      continue;
    }
    DING_RETURN_IF_ERROR(saved->Put(key, {absl::string_view(value)}));
    manifest.set_values(manifest.values() + 1);
    manifest.set_bytes(manifest.bytes() + bytes);
  }
  DING_LOG_IF(WARNING, manifest.left_out() > 0)
      << manifest.left_out() << " chunks are not saved: the others have " << manifest.bytes()
      << " bytes, and resume.max_replay_bytes allows " << max_bytes
      << "; a run that continues from here lacks their rows";
  return folder.WriteText(run_files::kSaved, PrintRunFile(manifest));
}

absl::Status RestoreValues(const Journal& journal, const RunFolder& folder, Store* store) {
  if (!PathExists(JoinPath(folder.path(), run_files::kSaved))) return absl::OkStatus();
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> listed, store->List(""));
  const std::unordered_set<std::string> present(listed.begin(), listed.end());
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<FileStore> saved,
                        FileStore::Create(JoinPath(folder.path(), run_files::kSavedFolder)));
  DING_ASSIGN_OR_RETURN(const std::vector<std::string> keys, journal.LiveKeys());
  std::string value;
  for (const std::string& key : keys) {
    if (present.count(key) > 0) continue;
    const absl::Status read = saved->Get(key, &value);
    if (absl::IsNotFound(read)) continue;  // It was lost before, or left out.
    if (absl::IsDataLoss(read)) {
      DING_LOG(WARNING) << "a saved chunk is damaged and left out: " << read.message();
      continue;
    }
    DING_RETURN_IF_ERROR(read);
    DING_RETURN_IF_ERROR(store->Put(key, {absl::string_view(value)}));
  }
  return absl::OkStatus();
}

}  // namespace ding
