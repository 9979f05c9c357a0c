#include "ding_worker/replay_buffer/buffer_file.h"

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "ding_worker/base/status_macros.h"
#include "ding_worker/data/safetensors.h"
#include "ding_worker/data/state.h"

namespace ding {

absl::Status SaveData(const IBuffer& buffer, const std::string& path) {
  return WriteSafetensors(path, buffer.Snapshot(), /*metadata=*/{}, /*self_checked=*/true).status();
}

absl::Status LoadData(IBuffer* buffer, const std::string& path) {
  DING_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsReader> reader,
                        SafetensorsReader::OpenSelfChecked(path));
  absl::Status status = buffer->LoadState(reader.get());
  // The file exists; a tensor that it lacks shows that something else wrote it.
  if (absl::IsNotFound(status)) status = absl::InvalidArgumentError(status.message());
  return Annotate(status, absl::StrCat("cannot load '", path, "'"));
}

}  // namespace ding
