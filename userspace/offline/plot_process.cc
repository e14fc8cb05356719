// SPDX-License-Identifier: Apache-2.0
#include "offline/plot_process.h"

#include <fmt/format.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"
#include "cli/companion_program.h"

namespace forestall::cli {
namespace {

constexpr const char* kProgram = "forestall-plot";

Result<UniqueFd> memory_file(const char* name) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd) return errno_error("memfd_create", name);
  return fd;
}

Result<std::string> whole(int fd) {
  std::string text;
  std::array<char, 65536> part{};
  for (;;) {
    const ssize_t n = ::pread(fd, part.data(), part.size(), static_cast<off_t>(text.size()));
    if (n < 0) return errno_error("read", kProgram);
    if (n == 0) return text;
    text.append(part.data(), static_cast<std::size_t>(n));
  }
}

}  // namespace

Result<std::string> plotted(const internal::Picture& picture) {
  const std::string path = TRY(companion_program(kProgram));
  const UniqueFd input = TRY(memory_file("picture"));
  const UniqueFd output = TRY(memory_file("image"));
  if (!picture.SerializeToFileDescriptor(input.get())) return errno_error("write", "the picture");
  ::lseek(input.get(), 0, SEEK_SET);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input.get(), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output.get(), STDOUT_FILENO);
  std::string name = kProgram;
  std::array<char*, 2> arguments{name.data(), nullptr};
  pid_t pid = 0;
  const int failure =
      ::posix_spawn(&pid, path.c_str(), &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure != 0) return Error{failure, path};
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return errno_error("waitpid", path);
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return error(fmt::format("{} failed (wait status {:#x})", path, status));
  }
  return whole(output.get());
}

}  // namespace forestall::cli
