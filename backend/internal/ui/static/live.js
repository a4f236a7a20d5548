// Keeps the parts of a page that are marked data-live as the server has them, and
// adds buttons that copy commands. Without it a page is the same, as of when it
// was loaded.
"use strict";
(() => {
	const often = 3000, longest = 60000;
	const notice = document.getElementById("live-notice");
	const say = (words, link) => {
		if (notice.dataset.words === words) return;
		notice.dataset.words = words;
		notice.textContent = words;
		if (link) {
			const a = document.createElement("a");
			a.href = link;
			a.textContent = "Sign in";
			notice.append(" ", a);
		}
	};

	// Who is in a part by keyboard, writes in it, or has selected something of it is not
	// disturbed: the part is brought up to date when they have left it. A click leaves the
	// focus behind, and disturbs nobody.
	const busy = (part) => {
		const selection = document.getSelection();
		return part.querySelector(":focus-visible") || !selection.isCollapsed && selection.containsNode(part, true);
	};

	// What the server said of each part last. The part itself may have got a button
	// since.
	const seen = new Map();
	let pause = often, timer;
	const look = async () => {
		clearTimeout(timer);
		if (document.hidden) return;
		try {
			const answer = await fetch(location.href, { headers: { "Gitbind-Live": "1" }, redirect: "manual" });
			if (answer.status === 401 || answer.type === "opaqueredirect") {
				say("Your session has ended. This page is as of then.", "/signin?then=" + encodeURIComponent(location.pathname + location.search));
				return;
			}
			if (answer.status === 403 || answer.status === 404) {
				say("What this page shows is not there any more, or not for you. The page is as it was before.");
				return;
			}
			if (!answer.ok) throw new Error(answer.statusText);
			const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
			let old = false;
			for (const part of document.querySelectorAll("[data-live]")) {
				const now = fresh.getElementById(part.id);
				if (!now || now.innerHTML === seen.get(part.id)) continue;
				if (busy(part)) {
					old = true;
					continue;
				}
				seen.set(part.id, now.innerHTML);
				part.innerHTML = now.innerHTML;
				copyable(part);
			}
			pause = often;
			say(old ? "A part of this page has changed. It is brought up to date once you leave it, or what you have selected in it." : "");
		} catch {
			pause = Math.min(2 * pause, longest);
			say("The control plane cannot be reached just now. This page is as it was before; it will be up to date again by itself.");
		}
		timer = setTimeout(look, pause);
	};

	const copyable = (root) => {
		if (!navigator.clipboard) return;
		for (const code of root.querySelectorAll("pre.command > code")) {
			if (code.parentElement.querySelector("button")) continue;
			const button = document.createElement("button");
			button.type = "button";
			button.className = "copy quiet";
			button.textContent = "Copy";
			button.addEventListener("click", async () => {
				await navigator.clipboard.writeText(code.textContent);
				button.textContent = "Copied";
				setTimeout(() => { button.textContent = "Copy"; }, 2000);
			});
			code.before(button);
		}
	};

	for (const part of document.querySelectorAll("[data-live]")) seen.set(part.id, part.innerHTML);
	copyable(document);
	if (seen.size > 0) {
		document.addEventListener("visibilitychange", look);
		timer = setTimeout(look, often);
	}
})();
