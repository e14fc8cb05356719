// SPDX-License-Identifier: Apache-2.0
// A filesystem for one test: ext4 in a sparse file on a loop device, or tmpfs. Mounted in a mount
// namespace of the test process, so that the host never has it and its end removes everything.
//
// Needs CAP_SYS_ADMIN. ext4 also needs mkfs.ext4 and a loop device, which this host and the guests
// of vmtests have.
#pragma once

#include <cstdint>
#include <string>

#include "base/bytes.h"
#include "support/temp_tree.h"

namespace forestall::test {

enum class ScratchKind : std::uint8_t { ext4, tmpfs };

class ScratchFilesystem {
 public:
  // `size` and `inodes` include those of the filesystem itself. ext4 has no journal and no blocks
  // reserved for root. Throws on errors.
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
