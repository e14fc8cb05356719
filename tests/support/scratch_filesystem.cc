// SPDX-License-Identifier: Apache-2.0
#include "support/scratch_filesystem.h"

#include <fcntl.h>
#include <linux/loop.h>
#include <sched.h>
#include <spawn.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <vector>

#include "base/unique_fd.h"
#include "support/own_mounts.h"

namespace forestall::test {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::generic_category().message(errno));
}

void run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t pid = 0;
  errno = ::posix_spawn(&pid, arguments[0], nullptr, nullptr, arguments.data(), environ);
  if (errno != 0) fail("spawn " + words[0]);
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid) fail("waitpid " + words[0]);
  if (status != 0) throw std::runtime_error(words[0] + " failed");
}

// A free loop device over `file`, detached when its last user closes it. Another process may take
// the free one first.
std::pair<UniqueFd, std::string> attach(const std::string& file) {
  const UniqueFd control(::open("/dev/loop-control", O_RDWR | O_CLOEXEC));
  if (!control) fail("open /dev/loop-control");
  const UniqueFd backing(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (!backing) fail("open " + file);
  for (;;) {
    const int number = ::ioctl(control.get(), LOOP_CTL_GET_FREE);
    if (number < 0) fail("LOOP_CTL_GET_FREE");
    const auto name = "/dev/loop" + std::to_string(number);
    UniqueFd device(::open(name.c_str(), O_RDWR | O_CLOEXEC));
    if (!device) fail("open " + name);
    loop_config config{};
    config.fd = static_cast<std::uint32_t>(backing.get());
    config.info.lo_flags = LO_FLAGS_AUTOCLEAR;
    if (::ioctl(device.get(), LOOP_CONFIGURE, &config) == 0) return {std::move(device), name};
    if (errno != EBUSY) fail("LOOP_CONFIGURE " + name);
  }
}

}  // namespace

ScratchFilesystem::ScratchFilesystem(ScratchKind kind, Bytes size, std::int64_t inodes)
    : place_{{"mount/", ""}}, point_(place_ / "mount") {
  enter_own_mounts();
  const auto count = std::to_string(inodes);
  if (kind == ScratchKind::tmpfs) {
    const auto options = "size=" + std::to_string(size.count) + ",nr_inodes=" + count;
    if (::mount("tmpfs", point_.c_str(), "tmpfs", 0, options.c_str()) != 0) fail("mount tmpfs");
    return;
  }
  const auto file = place_ / "image";
  place_.write("image", "");
  if (::truncate(file.c_str(), size.count) != 0) fail("truncate " + file);
  run({"/sbin/mkfs.ext4", "-q", "-F", "-m", "0", "-N", count, "-O", "^has_journal", file});
  const auto [device, name] = attach(file);
  if (::mount(name.c_str(), point_.c_str(), "ext4", 0, nullptr) != 0) fail("mount ext4 " + name);
}

ScratchFilesystem::~ScratchFilesystem() {
  ::umount2(point_.c_str(), MNT_DETACH);
}

}  // namespace forestall::test
