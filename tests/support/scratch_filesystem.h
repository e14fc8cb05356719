// SPDX-License-Identifier: Apache-2.0
// A filesystem made for one test: ext4 in a sparse file behind a loop device, or tmpfs. Mounted in
// a mount namespace of the test process, so that the host never sees it and nothing of it is left
// when the process ends, however it ends.
//
// Needs CAP_SYS_ADMIN; ext4 needs mkfs.ext4 and a loop device too, as this host and the guests of
// vmtests have them.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "support/temp_tree.h"

namespace forestall::test {

enum class ScratchKind : std::uint8_t { ext4, tmpfs };

class ScratchFilesystem {
 public:
  // `size` includes what the filesystem needs for itself; `inodes` likewise. ext4 is without a
  // journal and without blocks reserved for root. Throws what went wrong.
  ScratchFilesystem(ScratchKind kind, Bytes size, std::int64_t inodes);
  ScratchFilesystem(const ScratchFilesystem&) = delete;
  ScratchFilesystem& operator=(const ScratchFilesystem&) = delete;
  ~ScratchFilesystem();

  [[nodiscard]] const std::string& path() const { return point_; }
  [[nodiscard]] std::string operator/(const std::string& relative) const {
    return point_ + "/" + relative;
  }

 private:
  TempTree place_;
  std::string point_;
};

}  // namespace forestall::test
