// SPDX-License-Identifier: Apache-2.0
// A kernel file held open and read again and again from its start: no path lookup, and with a
// buffer that has grown once no allocation either, so that it still works when memory is short.
// The buffer is the caller's, so that hundreds of held files share one.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/unique_fd.h"

namespace forestall::kernel {

// Whole text behind `fd`, read from offset 0 into `buffer`, which grows as needed and never
// shrinks. The view lives until the buffer's next change. EFBIG above 1 MiB: no file read here
// comes near that, so it is not the file we think it is. Error messages name `object`.
[[nodiscard]] Result<std::string_view> read_whole(int fd, std::string& buffer,
                                                  std::string_view object);

class HeldFile {
 public:
  // `directory_fd` may be AT_FDCWD for an absolute path. `name` is what errors call the file.
  static Result<HeldFile> open(int directory_fd, const char* file, std::string name);

  // Fresh text of the file; the view lives in `buffer`. ENODEV when its cgroup is gone.
  [[nodiscard]] Result<std::string_view> read(std::string& buffer) const {
    return read_whole(fd_.get(), buffer, name_);
  }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  HeldFile(UniqueFd fd, std::string name) : fd_(std::move(fd)), name_(std::move(name)) {}
  UniqueFd fd_;
  std::string name_;
};

}  // namespace forestall::kernel
