// SPDX-License-Identifier: Apache-2.0
// Waits until the writer of a recording has written.
#pragma once

#include <string>
#include <utility>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::cli {

// Thread rule: one thread.
class RecordingChanges {
 public:
  // `path`: a recording, or the directory of an agent's recordings. Without inotify, changes are
  // found by a check each second.
  explicit RecordingChanges(const std::string& path);

  // Returns after a change, or after a second: a network filesystem reports no changes. False: the
  // reader of standard output is gone.
  [[nodiscard]] Result<bool> wait();

 private:
  UniqueFd changes_;  // inotify; none: not available
};

}  // namespace forestall::cli
