// SPDX-License-Identifier: Apache-2.0
// A kernel file that stays open and is read repeatedly from its start. A read resolves no path and,
// once the buffer has grown, allocates nothing, so it works when memory is short. The caller owns
// the buffer, so hundreds of files share one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

// The whole text of `fd`, read from offset 0 into `buffer`, which grows as needed and never
// shrinks. The view is valid until the buffer changes. EFBIG above 1 MiB: far more than any
// expected file has. Error messages name `object`.
[[nodiscard]] Result<std::string_view> read_whole(int fd, std::string& buffer,
                                                  std::string_view object);

class HeldFile {
 public:
  // `directory_fd` may be AT_FDCWD for an absolute path. `name` is the file's name in errors.
  static Result<HeldFile> open(int directory_fd, const char* file, std::string name);

  // Current text of the file; the view points into `buffer`. ENODEV: the file's cgroup was removed.
  [[nodiscard]] Result<std::string_view> read(std::string& buffer) const {
    return read_whole(fd_.get(), buffer, name_);
  }
  // The same of a file that is shorter than 4 KiB and that the kernel returns whole.
  [[nodiscard]] Result<std::string_view> read_once(std::string& buffer) const;
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  HeldFile(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  UniqueFd fd_;
  std::string name_;
};

}  // namespace forestall::kernel
