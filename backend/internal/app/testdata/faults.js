// What makes a page hard to read or to use, as the browser shows it now: texts
// with too little contrast, parts that stick out at the side, and things to press
// that are too small for a finger.
(() => {
	const faults = [];
	const numbers = (color) => {
		const m = color.match(/^rgba?\(([\d.]+), ([\d.]+), ([\d.]+)(?:, ([\d.]+))?\)$/);
		if (!m) throw new Error("colour " + color);
		return [+m[1], +m[2], +m[3], m[4] === undefined ? 1 : +m[4]];
	};
	const light = ([r, g, b]) => {
		const part = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
		return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
	};
	const contrast = (a, b) => {
		const [low, high] = [light(a), light(b)].sort((x, y) => x - y);
		return (high + 0.05) / (low + 0.05);
	};
	const ground = (e) => {
		for (; e; e = e.parentElement) {
			const color = numbers(getComputedStyle(e).backgroundColor);
			if (color[3] === 1) return color;
			if (color[3] !== 0) throw new Error("a ground that shines through: " + e.outerHTML);
		}
		return [255, 255, 255, 1];
	};
	const shown = (e) => e.checkVisibility({ visibilityProperty: true }) && !e.closest(".unseen, .skip");
	const judge = (e, color, what) => {
		const style = getComputedStyle(e);
		const size = parseFloat(style.fontSize);
		const large = size >= 24 || (size >= 18.66 && +style.fontWeight >= 700);
		const is = contrast(numbers(color), ground(e));
		if (is < (large ? 3 : 4.5)) faults.push(`contrast ${is.toFixed(2)} of ${what}`);
	};
	const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	while (texts.nextNode()) {
		const e = texts.currentNode.parentElement;
		const words = texts.currentNode.data.trim();
		if (words && shown(e)) judge(e, getComputedStyle(e).color, `"${words.slice(0, 40)}"`);
	}
	for (const e of document.querySelectorAll("input, select, button, .button")) {
		if (!shown(e)) continue;
		judge(e, getComputedStyle(e).color, e.outerHTML.slice(0, 60));
		const edge = contrast(numbers(getComputedStyle(e).borderTopColor), ground(e.parentElement));
		if (edge < 3) faults.push(`contrast ${edge.toFixed(2)} of the edge of ${e.outerHTML.slice(0, 60)}`);
		const box = e.getBoundingClientRect();
		if (box.height < 24 || box.width < 24) faults.push(`${box.width} by ${box.height} pixels: ${e.outerHTML.slice(0, 60)}`);
	}
	if (document.documentElement.scrollWidth > innerWidth) faults.push(`the page is ${document.documentElement.scrollWidth} pixels wide in a window of ${innerWidth}`);
	return faults;
})()
