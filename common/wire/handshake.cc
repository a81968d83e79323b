#include "common/wire/handshake.h"

#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/base/files.h"

namespace forebay {
namespace {

constexpr std::size_t kSecretBytes = 32;
constexpr std::size_t kNonceBytes = 32;

std::string RandomBytes(std::size_t count) {
  std::string bytes(count, '\0');
  // OpenSSL's generator fails only when the kernel has no randomness at all; there is no safe way
  // on.
  if (RAND_bytes(reinterpret_cast<unsigned char*>(bytes.data()), static_cast<int>(count)) != 1)
    std::abort();
  return bytes;
}

std::string Hmac(std::string_view secret, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest;
  unsigned int size = 0;
  HMAC(EVP_sha256(), secret.data(), static_cast<int>(secret.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  return std::string(reinterpret_cast<const char*>(digest.data()), size);
}

void AppendField(std::string& text, std::string_view field) {
  const auto size = static_cast<std::uint32_t>(field.size());
  for (int i = 0; i < 4; ++i) text.push_back(static_cast<char>(size >> (8 * i)));
  text.append(field);
}

// Everything that both sides said, so that neither role, version nor cluster can be swapped on the
// way.
std::string Transcript(std::string_view who, const proto::ClientHello& hello,
                       const proto::ServerHello& answer) {
  std::string text;
  AppendField(text, "forebay handshake 1");
  AppendField(text, who);
  AppendField(text, hello.nonce());
  AppendField(text, answer.nonce());
  AppendField(text, std::to_string(hello.version_min()));
  AppendField(text, std::to_string(hello.version_max()));
  AppendField(text, std::to_string(answer.version()));
  AppendField(text, std::to_string(hello.role()));
  AppendField(text, std::to_string(answer.role()));
  AppendField(text, hello.cluster());
  AppendField(text, answer.cluster());
  AppendField(text, hello.peer_id());
  return text;
}

Error OfErrno(const std::string& what, const std::string& path) {
  const int error = errno;
  const Code code = error == EACCES || error == EPERM ? Code::kDenied : Code::kInternal;
  return Error{code,
               what + " " + path + ": " + std::string(std::generic_category().message(error))};
}

/// Whose secret this user's programs may use. Root also uses a service's: its user owns the
/// directory, in a place where only root can have made it.
uid_t OwnerFor(const std::string& directory, const struct stat& info) {
  struct stat place{};
  const std::string parent = std::filesystem::path(directory).parent_path();
  const bool of_root =
      lstat(parent.c_str(), &place) == 0 && place.st_uid == 0 && (place.st_mode & 0022) == 0;
  return geteuid() == 0 && of_root ? info.st_uid : geteuid();
}

Status CheckOwner(const struct stat& info, uid_t owner, const std::string& path, mode_t forbidden) {
  if (info.st_uid != owner) {
    return Fail(Code::kDenied, path + " belongs to another user; remove it or run as that user");
  }
  if ((info.st_mode & forbidden) != 0) {
    return Fail(Code::kDenied, path + " may be read by other users; run chmod go= " + path);
  }
  return {};
}

/// Answers whose it is.
Result<uid_t> MakePrivateDirectory(const std::string& path) {
  Status above = MakeFoldersAbove(path);
  if (!above) return Fail(std::move(above.error()));
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return Fail(OfErrno("cannot make", path));
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return Fail(OfErrno("cannot look at", path));
  if (!S_ISDIR(info.st_mode)) return Fail(Code::kInvalid, path + " is no directory; remove it");
  const uid_t owner = OwnerFor(path, info);
  Status checked = CheckOwner(info, owner, path, 0022);
  if (!checked) return Fail(std::move(checked.error()));
  return owner;
}

Result<Secret> ReadSecret(const std::string& path, uid_t owner) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return Fail(OfErrno("cannot open", path));
  struct stat info{};
  std::string secret(kSecretBytes + 1, '\0');
  const bool looked = fstat(fd, &info) == 0;
  const ssize_t size = looked ? read(fd, secret.data(), secret.size()) : -1;
  const Error failed = OfErrno("cannot read", path);
  close(fd);
  if (size < 0) return Fail(failed);
  Status checked = CheckOwner(info, owner, path, 0077);
  if (!checked) return Fail(std::move(checked.error()));
  if (size != static_cast<ssize_t>(kSecretBytes)) {
    return Fail(Code::kInvalid,
                path + " is damaged; stop all Forebay programs of this user and remove it");
  }
  secret.resize(kSecretBytes);
  return Secret(std::move(secret));
}

// Written whole under another name, then linked: whoever links first decides, and nobody reads half
// a file.
Status CreateSecret(const std::string& path, uid_t owner) {
  const std::string draft = path + "." + std::to_string(getpid()) + "." +
                            std::to_string(reinterpret_cast<std::uintptr_t>(&path));
  const int fd = open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return Fail(OfErrno("cannot create", draft));
  const Secret made(RandomBytes(kSecretBytes));
  const std::string_view secret = made.Reveal();
  const bool written =
      (owner == geteuid() || fchown(fd, owner, static_cast<gid_t>(-1)) == 0) &&
      write(fd, secret.data(), secret.size()) == static_cast<ssize_t>(secret.size());
  const Error failed = OfErrno("cannot write", draft);
  close(fd);
  const bool linked = written && (link(draft.c_str(), path.c_str()) == 0 || errno == EEXIST);
  const Error not_linked = OfErrno("cannot create", path);
  unlink(draft.c_str());
  if (!written) return Fail(failed);
  if (!linked) return Fail(not_linked);
  return {};
}

}  // namespace

Result<std::string> RuntimeDir() {
  // Read before any thread of ours changes the environment: nobody does.
  if (const char* given = secure_getenv("FOREBAY_RUNTIME_DIR"); given != nullptr && *given != '\0')
    return given;
  if (geteuid() == 0) return "/run/forebay";
  if (const char* xdg = secure_getenv("XDG_RUNTIME_DIR"); xdg != nullptr && *xdg != '\0') {
    return std::string(xdg) + "/forebay";
  }
  return Fail(
      Code::kInvalid,
      "there is no runtime directory for this user: set XDG_RUNTIME_DIR or FOREBAY_RUNTIME_DIR");
}

Result<Secret> LoadOrCreateSecret() {
  Result<std::string> directory = RuntimeDir();
  if (!directory) return Fail(directory.error());
  const Result<uid_t> owner = MakePrivateDirectory(*directory);
  if (!owner) return Fail(owner.error());
  const std::string path = *directory + "/secret";
  if (access(path.c_str(), F_OK) != 0 && errno == ENOENT) {
    Status created = CreateSecret(path, *owner);
    if (!created) return Fail(created.error());
  }
  return ReadSecret(path, *owner);
}

std::string NewNonce() { return RandomBytes(kNonceBytes); }

std::string ServerProof(const Credentials& credentials, const proto::ClientHello& hello,
                        const proto::ServerHello& answer) {
  return Hmac(credentials.secret.Reveal(), Transcript("server", hello, answer));
}

std::string ClientProof(const Credentials& credentials, const proto::ClientHello& hello,
                        const proto::ServerHello& answer) {
  return Hmac(credentials.secret.Reveal(), Transcript("client", hello, answer));
}

bool ProofMatches(std::string_view expected, std::string_view given) {
  return expected.size() == given.size() &&
         CRYPTO_memcmp(expected.data(), given.data(), given.size()) == 0;
}

}  // namespace forebay
